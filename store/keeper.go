package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/plain"
)

// encoded keeps what a codec makes of values in any backend. It implements keeper.
type encoded[T any] struct {
	b     backend.Backend
	kind  string
	codec *codec[T]
	life  lifecycle[T]
	limit int // bytes of a record; zero is none
}

func (e *encoded[T]) get(ctx context.Context, key string) (Object[T], error) {
	r, err := e.b.Get(ctx, e.kind, key)
	switch {
	case err != nil:
		return Object[T]{}, err
	case r.Version == 0 || r.Deleted:
		return Object[T]{}, ErrNotFound
	}
	r.Key = key
	st, err := e.codec.state(&r)
	if err != nil {
		return Object[T]{}, err
	}
	return st.Object, nil
}

func (e *encoded[T]) pages(ctx context.Context, q *backend.Query) iter.Seq2[page[T], error] {
	return func(yield func(page[T], error) bool) {
		for got, err := range e.b.List(ctx, e.kind, *q) {
			if err != nil {
				yield(page[T]{}, err)
				return
			}
			var st state[T] // one for all
			p := page[T]{version: got.Version, items: make([]Object[T], 0, len(got.Records))}
			for i := range got.Records {
				r := &got.Records[i]
				if r.Deleted || !q.Matches(r.Key, r.Labels) {
					continue
				}
				st = state[T]{}
				if err := e.codec.read(&st, r); err != nil {
					p.unread = append(p.unread, unread{r.Key, r.Version, err})
					continue
				}
				p.items = append(p.items, st.Object)
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (e *encoded[T]) watch(ctx context.Context, q *backend.Query, after informer.Version) iter.Seq2[told[T], error] {
	return func(yield func(told[T], error) bool) {
		for c, err := range e.b.Watch(ctx, e.kind, *q, after) {
			t := told[T]{version: c.Version}
			if err == nil && c.Record.Key != "" {
				t.key = c.Record.Key
				var st *state[T]
				if st, t.err = e.codec.state(&c.Record); st != nil {
					t.object, t.hidden = st.Object, st.hidden
				}
			}
			if errors.Is(err, backend.ErrExpired) {
				var known *expiredError
				if !errors.As(err, &known) {
					err = &expiredError{asked: after, err: err}
				}
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (e *encoded[T]) transact(
	ctx context.Context, w *write[T], obj *Object[T], fences []Fence,
) (Object[T], error) {
	var answer *state[T]
	r, err := e.b.Transact(ctx, e.kind, w.key, fences, func(have backend.Record) (*backend.Record, error) {
		have.Key = w.key
		st, err := e.codec.state(&have)
		if err = w.readable(st, err); err != nil {
			return nil, err
		}
		value := &encodedValue[T]{codec: e.codec, had: have.Value}
		next, err := e.life.decide(w, obj, st, value)
		if err != nil {
			return nil, err
		}
		if next == nil {
			answer = st
			return nil, nil
		}
		if next.raw == nil {
			next.raw = value.bytes
		}
		record, err := e.codec.record(next)
		if err != nil {
			return nil, err
		}
		if size := sizeOf(&record); e.limit > 0 && size > e.limit {
			return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", backend.ErrTooLarge, size, e.limit)
		}
		answer = next
		return &record, nil
	})
	if errors.Is(err, ErrFenced) && requestOf(w.pre) != "" {
		return e.repeated(ctx, w, err)
	}
	if err != nil {
		return Object[T]{}, err
	}
	answer.Version = r.Version
	return answer.Object, nil
}

// repeated returns what a write is answered with that was accepted before, or else the error that it is fenced with.
func (e *encoded[T]) repeated(ctx context.Context, w *write[T], fenced error) (Object[T], error) {
	r, err := e.b.Get(ctx, e.kind, w.key)
	if err != nil {
		return Object[T]{}, err
	}
	r.Key = w.key
	st, err := e.codec.state(&r)
	if err != nil {
		return Object[T]{}, err
	}
	switch again, err := w.repeats(st); {
	case err != nil:
		return Object[T]{}, err
	case again:
		return st.Object, nil
	default:
		return Object[T]{}, fenced
	}
}

// sizeOf returns how many bytes of a record count for Capabilities.MaxBytes.
func sizeOf(r *backend.Record) int {
	n := len(r.Meta) + len(r.Value)
	for _, m := range []map[string]string{r.Labels, r.Before} {
		for key, value := range m {
			n += len(key) + len(value)
		}
	}
	return n
}

// direct keeps values of plain data in a Memory as they are, without a codec. It implements keeper.
type direct[T any] struct {
	db     *Memory
	items  *memoryKind
	values *plain.Values[T]
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
	o.Value = d.values.Copy(&stored.Value)
	return o
}
