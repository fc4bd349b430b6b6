package store

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"time"
	"unicode/utf8"

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

func (e *encodedValue[T]) adopt(v, base *T) (same bool, err error) {
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

var (
	errNoBackend = errors.New("the backend is nil")
	errNotUTF8   = errors.New("a string is not UTF-8")
)

// encodeJSON is the default Config.Encode. Its errors say which part of v cannot be encoded.
func encodeJSON[T any](v T) ([]byte, error) {
	b, err := json.Marshal(v)
	switch {
	case err != nil:
		return nil, badPart(&v, marshalError)
	case bytes.Contains(b, []byte(`\ufffd`)): // made of a byte that is not UTF-8, or of a text that says so
		if err := badPart(&v, textError); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// decodeJSON is the default Config.Decode.
func decodeJSON[T any](b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// badPart returns what check says about the innermost part of v that it returns an error for, and which part that is.
func badPart[T any](v *T, check func(reflect.Value) error) error {
	part, path := reflect.ValueOf(v).Elem(), reflect.TypeFor[T]().String()
	err := check(part)
	for deeper := err != nil; deeper; {
		deeper = false
		for inner, at := range partsOf(part) {
			if e := check(inner); e != nil {
				part, path, err, deeper = inner, path+at, e, len(path) < 1000 // a value may contain itself
				break
			}
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}

func marshalError(v reflect.Value) error {
	_, err := json.Marshal(v.Interface())
	return err
}

// textError returns an error if a string in v is not UTF-8.
func textError(v reflect.Value) error {
	if v.Kind() == reflect.String && !utf8.ValidString(v.String()) {
		return errNotUTF8
	}
	for inner := range partsOf(v) {
		if err := textError(inner); err != nil {
			return err
		}
	}
	return nil
}

// partsOf yields what encoding/json encodes of v, with where it is in v. What encodes itself has no parts.
func partsOf(v reflect.Value) iter.Seq2[reflect.Value, string] {
	return func(yield func(reflect.Value, string) bool) {
		if v.Kind() != reflect.Interface && v.IsValid() && encodesItself(v.Type()) {
			return
		}
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				yield(v.Elem(), "")
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				if f.IsExported() && f.Tag.Get("json") != "-" && !yield(v.Field(i), "."+f.Name) {
					return
				}
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				if !yield(v.Index(i), fmt.Sprintf("[%d]", i)) {
					return
				}
			}
		case reflect.Map:
			for entries := v.MapRange(); entries.Next(); {
				at := fmt.Sprintf("[%v]", entries.Key())
				if !yield(entries.Value(), at) || entries.Key().Kind() == reflect.String && !yield(entries.Key(), at) {
					return
				}
			}
		}
	}
}

// encodesItself reports whether values of t say what they are in JSON.
func encodesItself(t reflect.Type) bool {
	for _, t := range []reflect.Type{t, reflect.PointerTo(t)} {
		if t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return true
		}
	}
	return false
}

// decodesItself reports whether values of t can read what they say in JSON.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// checkJSON returns an error that names the first field below path that encoding/json does not keep. It finds the types that
// it has looked at in seen.
func checkJSON(t reflect.Type, path string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	if encodesItself(t) && decodesItself(t) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return checkJSON(t.Elem(), path, seen)
	case reflect.Slice, reflect.Array:
		return checkJSON(t.Elem(), path+"[]", seen)
	case reflect.Map:
		if err := checkJSONKey(t.Key(), path+"[key]"); err != nil {
			return err
		}
		return checkJSON(t.Elem(), path+"[]", seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			switch {
			case f.Tag.Get("json") == "-":
				continue
			case !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct):
				return fmt.Errorf("%s.%s: an unexported field is not plain data", path, f.Name)
			}
			if err := checkJSON(f.Type, path+"."+f.Name, seen); err != nil {
				return err
			}
		}
		return nil
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("%s: %s is not plain data", path, t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s: %s is not plain data", path, t)
		}
	}
	return nil
}

// checkJSONKey is checkJSON for the key of a map.
func checkJSONKey(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return nil
	}
	if encodesItself(t) && decodesItself(t) {
		return nil
	}
	return fmt.Errorf("%s: %s is not plain data for the key of a map", path, t)
}
