package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// codec turns states into records and back.
type codec[T any] struct {
	kind   string
	encode func(T) ([]byte, error)
	decode func([]byte) (T, error)
}

// meta is the envelope of an object in Record.Meta.
type meta struct {
	UID        string     `json:"uid"`
	Generation int64      `json:"generation"`
	Owners     []OwnerRef `json:"owners,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`
	Created    time.Time  `json:"created"`
	Deleting   time.Time  `json:"deleting,omitzero"`
	New        bool       `json:"new,omitempty"` // this write created the object
	Requests   []request  `json:"requests,omitempty"`
}

// decodeError is ErrDecode with the record.
type decodeError struct {
	version informer.Version
	err     error
}

func (e *decodeError) Error() string {
	return fmt.Sprintf("%v: version %d: %v", ErrDecode, e.version, e.err)
}
func (e *decodeError) Unwrap() []error { return []error{ErrDecode, e.err} }

// state returns what is in a record, or nil if there is none. With a *decodeError it returns what did decode: an envelope
// has a UID.
func (c *codec[T]) state(r *backend.Record) (*state[T], error) {
	if r.Version == 0 {
		return nil, nil
	}
	st := new(state[T])
	return st, c.read(st, r)
}

// read makes st, which is zero, the state in a record. It returns a *decodeError as state does.
func (c *codec[T]) read(st *state[T], r *backend.Record) error {
	st.Kind, st.Key, st.Version, st.Labels = c.kind, r.Key, r.Version, copyOfMap(r.Labels)
	st.deleted, st.before, st.raw = r.Deleted, r.Before, r.Value
	var m meta
	if err := json.Unmarshal(r.Meta, &m); err != nil {
		return &decodeError{r.Version, fmt.Errorf("its envelope: %w", err)}
	}
	st.UID, st.Generation, st.Owners, st.Finalizers = m.UID, m.Generation, copyOfList(m.Owners), copyOfList(m.Finalizers)
	st.Created, st.Deleting, st.created, st.requests = m.Created, m.Deleting, m.New, m.Requests
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
	envelope, err := json.Marshal(meta{
		UID: st.UID, Generation: st.Generation, Owners: st.Owners, Finalizers: st.Finalizers,
		Created: st.Created, Deleting: st.Deleting, New: st.created, Requests: st.requests,
	})
	if err != nil {
		return backend.Record{}, err
	}
	return backend.Record{
		Key: st.Key, Version: st.Version, Deleted: st.deleted, Labels: maps.Clone(st.Labels), Before: maps.Clone(st.before),
		Meta: envelope, Value: value,
	}, nil
}

// encodedValue implements [values] for one attempt of a write: it compares what values are encoded as. What decodes is made
// for the one attempt, so nothing has to be copied.
type encodedValue[T any] struct {
	codec *codec[T]
	had   []byte // what the base is stored as

	bytes []byte // what the value that was adopted is to be stored as
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
	was, err := e.codec.encode(*base) // an older program may have written it in another way
	return err == nil && string(was) == string(b), nil
}
