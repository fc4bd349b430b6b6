package store

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
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
			if errors.Is(err, ErrExpired) {
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
			return nil, fmt.Errorf("%w: it has %d bytes, %d are allowed", ErrTooLarge, size, e.limit)
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
