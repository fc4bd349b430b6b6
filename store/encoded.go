package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/internal/memdb"
)

// encoded implements keeper: it keeps encoded values in any backend.
type encoded[T any] struct {
	b     backend.Backend
	kind  string
	codec *codec[T]
	life  lifecycle[T]
	limit int // bytes of a record; zero means no limit
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
			var st state[T] // reused, to allocate one
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
		var st state[T] // reused, to allocate one
		at := after     // the last version that was yielded
		for c, err := range e.b.Watch(ctx, e.kind, *q, after) {
			t := told[T]{version: c.Version}
			if err == nil && c.Record.Key != "" {
				st = state[T]{}
				t.err = e.codec.read(&st, &c.Record)
				t.key, t.object, t.hidden = c.Record.Key, st.Object, st.hidden
			}
			if errors.Is(err, backend.ErrExpired) && !errors.As(err, new(*memdb.ExpiredError)) {
				err = &Error{Op: opWatch, Kind: e.kind, Want: at, Err: err}
			}
			at = c.Version
			if !yield(t, err) {
				return
			}
		}
	}
}

func (e *encoded[T]) transact(
	ctx context.Context, w *write[T], obj *Object[T], fences []Fence,
) (Object[T], error) {
	if w.over != nil {
		return e.repeated(ctx, w, w.over)
	}
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

// repeated returns the result of w if a write with its id was accepted before. If not, it returns the error fenced.
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
	if again, err := w.repeats(st); err != nil || !again {
		return Object[T]{}, cmp.Or(err, fenced)
	}
	return st.Object, nil
}

// sizeOf returns the size of a record in the sense of Capabilities.MaxBytes.
func sizeOf(r *backend.Record) int {
	n := len(r.Meta) + len(r.Value)
	for _, m := range []map[string]string{r.Labels, r.Before} {
		for key, value := range m {
			n += len(key) + len(value)
		}
	}
	return n
}

// codec turns states into records and back.
type codec[T any] struct {
	kind   string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

// decodeError is an ErrDecode with the version of the record.
type decodeError struct {
	version informer.Version
	err     error
}

func (e *decodeError) Error() string {
	return fmt.Sprintf("%v: version %d: %v", ErrDecode, e.version, e.err)
}
func (e *decodeError) Unwrap() []error { return []error{ErrDecode, e.err} }

// state returns the state in a record, or nil if the record is empty. With a *decodeError, it returns the part that was decoded: if that
// has a UID, the envelope was decoded.
func (c *codec[T]) state(r *backend.Record) (*state[T], error) {
	if r.Version == 0 {
		return nil, nil
	}
	st := new(state[T])
	return st, c.read(st, r)
}

// read fills st, which must be zero, with the state in a record. It returns a *decodeError as state does.
func (c *codec[T]) read(st *state[T], r *backend.Record) error {
	st.Kind, st.Key, st.Version, st.Labels = c.kind, r.Key, r.Version, copyOfMap(r.Labels)
	st.deleted, st.before, st.raw = r.Deleted, r.Before, r.Value
	m, err := envelope.Decode(r.Meta)
	if err != nil {
		return &decodeError{r.Version, fmt.Errorf("its envelope: %w", err)}
	}
	st.UID, st.Generation, st.Created, st.Deleting, st.created, st.Trace = m.UID, m.Generation, m.Created, m.Deleting, m.New, m.Trace
	if len(m.Owners) > 0 {
		st.Owners = make([]OwnerRef, len(m.Owners))
		for i, o := range m.Owners {
			st.Owners[i] = OwnerRef{Ref{o.Kind, o.Key, o.UID}, o.Controller}
		}
	}
	if len(m.Finalizers) > 0 {
		st.Finalizers = m.Finalizers
	}
	st.requests = m.Requests
	v, err := c.decode(r.Value)
	if err != nil {
		return &decodeError{r.Version, err}
	}
	st.Value = v
	return nil
}

// record returns the record of a state.
func (c *codec[T]) record(st *state[T]) (backend.Record, error) {
	value := st.raw
	if value == nil {
		var err error
		if value, err = c.encode(st.Value); err != nil {
			return backend.Record{}, err
		}
	}
	m := envelope.Envelope{
		UID: st.UID, Generation: st.Generation, Finalizers: st.Finalizers, Created: st.Created, Deleting: st.Deleting,
		New: st.created, Requests: st.requests, Trace: st.Trace,
	}
	for _, o := range st.Owners {
		m.Owners = append(m.Owners, envelope.Owner{Kind: o.Kind, Key: o.Key, UID: o.UID, Controller: o.Controller})
	}
	meta, err := envelope.Encode(&m)
	if err != nil {
		return backend.Record{}, err
	}
	return backend.Record{
		Key: st.Key, Version: st.Version, Deleted: st.deleted, Labels: maps.Clone(st.Labels), Before: maps.Clone(st.before),
		Meta: meta, Value: value,
	}, nil
}

// encodedValue implements [values] for one attempt of a write. It compares encoded values. A decoded value belongs to the attempt, so
// it needs no copy.
type encodedValue[T any] struct {
	codec *codec[T]
	had   []byte // the stored bytes of the base

	bytes []byte // the encoded value that was adopted
}

func (e *encodedValue[T]) Adopt(v, base *T) (same bool, err error) {
	b, err := e.codec.encode(*v)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	back, err := e.codec.decode(b)
	if err != nil {
		return false, fmt.Errorf("%w: the codec does not decode what it has encoded: %w", ErrInvalid, err)
	}
	*v, e.bytes = back, b
	if base == nil {
		return false, nil
	}
	if string(b) == string(e.had) {
		return true, nil
	}
	was, err := e.codec.encode(*base) // an older program may have encoded it differently
	return err == nil && string(was) == string(b), nil
}
