package store

import (
	"cmp"
	"context"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// direct keeps values of plain data in a Memory as they are, without a codec. It implements keeper.
type direct[T any] struct {
	db     *Memory
	items  *memoryKind
	values *plainValues[T]
	codec  *codec[T] // for records that were written through the Memory as a backend, and for who reads so
	life   lifecycle[T]
}

// A state is an item of a Memory.

func (s *state[T]) itemKey() string                 { return s.Key }
func (s *state[T]) itemVersion() informer.Version   { return s.Version }
func (s *state[T]) setVersion(v informer.Version)   { s.Version = v }
func (s *state[T]) isDeleted() bool                 { return s.deleted }
func (s *state[T]) matches(q *backend.Query) bool   { return q.Matches(s.Key, s.Labels) }
func (s *state[T]) record() (backend.Record, error) { return s.codec.record(s) }

func (s *state[T]) concerns(q *backend.Query) bool {
	return s.matches(q) || s.before != nil && q.Matches(s.Key, s.before)
}

func (d *direct[T]) get(ctx context.Context, key string) (Object[T], error) {
	if ctx.Err() != nil {
		return Object[T]{}, context.Cause(ctx)
	}
	it, _ := d.db.find(d.items, key, nil)
	if it == nil || it.isDeleted() {
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
		items, version := d.db.list(d.items, q)
		p := page[T]{version: version, items: make([]Object[T], 0, len(items))}
		for _, it := range items {
			st, err := d.stateOf(it)
			if err != nil {
				p.unread = append(p.unread, unread{it.itemKey(), it.itemVersion(), err})
				continue
			}
			p.items = append(p.items, d.copyOf(st))
		}
		yield(p, nil)
	}
}

func (d *direct[T]) watch(ctx context.Context, q *backend.Query, after informer.Version) iter.Seq2[told[T], error] {
	return func(yield func(told[T], error) bool) {
		for s, err := range d.db.watch(ctx, d.items, q, after) {
			t := told[T]{version: s.version}
			if err == nil && s.item != nil {
				t.key = s.item.itemKey()
				var st *state[T]
				if st, t.err = d.stateOf(s.item); st != nil {
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
		it, fenced := d.db.find(d.items, w.key, fences)
		have, err := d.stateOf(it)
		if err = w.readable(have, err); err != nil {
			return Object[T]{}, err
		}
		if fenced != nil {
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
				if ok, err := d.db.commit(d.items, w.key, it, nil, fences); err != nil || !ok {
					continue // and see why
				}
			}
			return d.copyOf(have), nil
		}
		next.codec = d.codec
		if ok, err := d.db.commit(d.items, w.key, it, next, fences); err == nil && ok {
			return d.copyOf(next), nil
		}
	}
}

// stateOf returns what is in an item, or nil if there is none.
func (d *direct[T]) stateOf(it item) (*state[T], error) {
	switch it := it.(type) {
	case nil:
		return nil, nil
	case *state[T]:
		return it, nil
	default:
		rec, err := it.record()
		if err != nil {
			return nil, err
		}
		return d.codec.state(&rec)
	}
}

// copyOf returns a deep copy of what is stored.
func (d *direct[T]) copyOf(stored *state[T]) Object[T] {
	o := stored.Object
	o.deepenEnvelope()
	o.Value = d.values.copyOf(&stored.Value)
	return o
}
