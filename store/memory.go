package store

import (
	"cmp"
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/memdb"
	"github.com/setpoint-go/setpoint/store/internal/plain"
)

// Memory is a database in memory: a [backend.Backend] for objects of many kinds. [Open] returns the store of one kind.
//
// Versions start at 1 and increase by one with each change of any kind. So the versions of two objects of different kinds tell which
// was written first.
//
// A Memory keeps values of plain data as they are, and returns deep copies. Plain data are booleans, numbers, strings,
// [time.Time], and arrays, slices, maps, pointers, and structs of plain data. A struct has exported fields only, and the key of
// a map contains no pointer, float, or time. A type may be recursive; a value must be a tree, and a write of a value that contains
// itself panics. Values of any other type, or with a codec in [Config], are kept as the bytes that the codec returns.
//
// A watch is a position in the history of its kind: it has no goroutine and no buffer, and a slow consumer delays no other code. No lock is
// held while your code runs. A Memory has no goroutine and needs no closing. All methods are safe for concurrent use.
type Memory struct {
	backend.Kinds
	items *memdb.DB
}

// MemoryConfig is the configuration of a [Memory]. Its zero value is ready to use, and every value is valid.
type MemoryConfig struct {
	// History is the number of changes of each kind that a Memory keeps for watches. A watch that starts or falls further back ends with
	// [informer.ErrExpired]. Each kind has its own history, so a busy kind does not expire the watches of a quiet one. The [RequestID] ids
	// of a deleted object are kept as long as its deletion. Defaults to 4096; a negative number keeps none.
	History int

	_ [0]func()
}

// withDefaults returns c with defaults for the zero values.
func (c MemoryConfig) withDefaults() MemoryConfig {
	c.History = max(cmp.Or(c.History, 4096), 0)
	return c
}

// NewMemory returns an empty database. The error is always nil: every MemoryConfig is valid.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	return &Memory{items: memdb.New(cfg.withDefaults().History)}, nil
}

// Capabilities implements [backend.Backend]. A Memory reports every state, has no limits, and has no transactions to join.
func (db *Memory) Capabilities() backend.Capabilities { return backend.Capabilities{} }

// Get implements [backend.Backend].
func (db *Memory) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	return db.items.Get(ctx, kind, key)
}

// List implements [backend.Backend]. It yields one page.
func (db *Memory) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return db.items.List(ctx, kind, q)
}

// Watch implements [backend.Backend].
func (db *Memory) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return db.items.Watch(ctx, kind, q, after)
}

// Transact implements [backend.Backend].
func (db *Memory) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	return db.items.Transact(ctx, kind, key, fences, decide)
}

// direct implements keeper: it keeps values of plain data in a Memory as they are, without a codec.
type direct[T any] struct {
	items  *memdb.Kind
	values *plain.Values[T]
	codec  *codec[T] // for reads and writes through the methods of backend.Backend
	life   lifecycle[T]
}

// A state is a [memdb.Item].

func (s *state[T]) ItemKey() string                 { return s.Key }
func (s *state[T]) ItemVersion() informer.Version   { return s.Version }
func (s *state[T]) SetVersion(v informer.Version)   { s.Version = v }
func (s *state[T]) IsDeleted() bool                 { return s.deleted }
func (s *state[T]) Matches(q *backend.Query) bool   { return q.Matches(s.Key, s.Labels) }
func (s *state[T]) Record() (backend.Record, error) { return s.codec.record(s) }

func (s *state[T]) Concerns(q *backend.Query) bool {
	return s.Matches(q) || s.before != nil && q.Matches(s.Key, s.before)
}

func (d *direct[T]) get(ctx context.Context, key string) (Object[T], error) {
	if ctx.Err() != nil {
		return Object[T]{}, context.Cause(ctx)
	}
	it, _ := d.items.Find(key, nil)
	if it == nil || it.IsDeleted() {
		return Object[T]{}, ErrNotFound
	}
	st, err := d.stateOf(it)
	if err != nil {
		return Object[T]{}, err
	}
	return d.copyOf(st), nil
}

func (d *direct[T]) pages(ctx context.Context, q *backend.Query) iter.Seq2[page[T], error] {
	return func(yield func(page[T], error) bool) {
		if ctx.Err() != nil {
			yield(page[T]{}, context.Cause(ctx))
			return
		}
		items, version := d.items.List(q)
		p := page[T]{version: version, items: make([]Object[T], 0, len(items))}
		for _, it := range items {
			st, err := d.stateOf(it)
			if err != nil {
				p.unread = append(p.unread, unread{it.ItemKey(), it.ItemVersion(), err})
				continue
			}
			p.items = append(p.items, d.copyOf(st))
		}
		yield(p, nil)
	}
}

func (d *direct[T]) watch(ctx context.Context, q *backend.Query, after informer.Version) iter.Seq2[told[T], error] {
	return func(yield func(told[T], error) bool) {
		for s, err := range d.items.Watch(ctx, q, after) {
			t := told[T]{version: s.Version}
			if err == nil && s.Item != nil {
				t.key = s.Item.ItemKey()
				var st *state[T]
				if st, t.err = d.stateOf(s.Item); st != nil {
					t.object, t.hidden = d.copyOf(st), st.hidden
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (d *direct[T]) transact(ctx context.Context, w *write[T], obj *Object[T], fences []Fence) (Object[T], error) {
	for {
		if ctx.Err() != nil {
			return Object[T]{}, context.Cause(ctx)
		}
		it, fenced := d.items.Find(w.key, fences)
		have, err := d.stateOf(it)
		if err = w.readable(have, err); err != nil {
			return Object[T]{}, err
		}
		if fenced = cmp.Or(fenced, w.over); fenced != nil {
			if again, err := w.repeats(have); err != nil || !again {
				return Object[T]{}, cmp.Or(err, fenced)
			}
			return d.copyOf(have), nil
		}
		next, err := d.life.decide(w, obj, have, d.values)
		if err != nil {
			return Object[T]{}, err
		}
		if next == nil {
			if len(fences) > 0 {
				if ok, err := d.items.Commit(w.key, it, nil, fences); err != nil || !ok {
					continue // and return the reason
				}
			}
			return d.copyOf(have), nil
		}
		next.codec = d.codec
		if ok, err := d.items.Commit(w.key, it, next, fences); err == nil && ok {
			return d.copyOf(next), nil
		}
	}
}

// stateOf returns the state in an item, or nil if the item is nil. The value of a state with an encoded one may be missing.
func (d *direct[T]) stateOf(it memdb.Item) (*state[T], error) {
	if st, ok := it.(*state[T]); it == nil || ok && st.raw == nil {
		return st, nil
	}
	rec, err := it.Record()
	if err != nil {
		return nil, err
	}
	return d.codec.state(&rec)
}

// copyOf returns a deep copy of a stored object.
func (d *direct[T]) copyOf(stored *state[T]) Object[T] {
	o := stored.Object
	o.deepenEnvelope()
	o.Value = d.values.Copy(&stored.Value)
	return o
}
