package store

import (
	"fmt"
	"maps"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/store/backend"
)

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
	v, err := c.decode(r.Value)
	if err != nil {
		return &decodeError{r.Version, err}
	}
	st.Value = v
	return nil
}

// record returns the record of a state.
func (c *codec[T]) record(st *state[T]) (backend.Record, error) {
	m := envelope.Envelope{
		UID: st.UID, Generation: st.Generation, Finalizers: st.Finalizers, Created: st.Created, Deleting: st.Deleting,
		New: st.created, Trace: st.Trace,
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
		Meta: meta, Value: st.raw,
	}, nil
}

// adopt encodes v, which a caller has passed, and replaces it by what the bytes decode to, which the caller cannot change. It reports
// whether v equals the value of base, which may be nil. The error is [ErrInvalid] if the codec does not keep v.
func (c *codec[T]) adopt(v *T, base *state[T]) (b []byte, same bool, err error) {
	if b, err = c.encode(*v); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if *v, err = c.decode(b); err != nil {
		return nil, false, fmt.Errorf("%w: the codec does not decode what it has encoded: %w", ErrInvalid, err)
	}
	if base == nil {
		return b, false, nil
	}
	if string(b) == string(base.raw) {
		return b, true, nil
	}
	was, err := c.encode(base.Value) // an older program may have encoded it differently
	return b, err == nil && string(was) == string(b), nil
}
