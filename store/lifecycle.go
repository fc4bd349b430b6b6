package store

import (
	"fmt"
	"reflect"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/statustag"
)

// state is an object as it is stored, with its hidden part. A stored state is immutable.
type state[T any] struct {
	Object[T]
	hidden
}

// hidden is the part of a state that callers do not see.
type hidden struct {
	deleted bool              // a tombstone: the object is gone, and this is its last state
	created bool              // the write of this version created the object
	before  map[string]string // the labels before this write; nil if they were the same, or there was no object
	raw     []byte            // the encoded Value, which is zero if it does not decode
}

// write is the request of a caller, without the object.
type write[T any] struct {
	op, kind, key string
	pre           []Precondition
	uid           string // for a creation
	trace         string
	before        informer.Version // of the object that admit has seen; reconcile.Unknown before that
}

// lifecycle computes the next state of an object from a write. Writes to all backends go through it.
type lifecycle[T any] struct {
	status     statustag.Fields // of T
	conditions [][]int          // the fields of type Conditions in T, for reflect's FieldByIndex
}

// decide returns the state to store after the write w of obj, which is nil for a deletion. Have is the stored state: nil if there is
// none, and possibly a tombstone. If decide returns nil, there is nothing to write, and have is the result. It has no side
// effects, so it may be called again.
func (l lifecycle[T]) decide(w *write[T], obj *Object[T], have *state[T], c *codec[T]) (*state[T], error) {
	alive := have
	if have != nil && have.deleted {
		alive = nil
	}
	if err := w.admit(obj, alive); err != nil {
		return nil, err
	}
	var next *state[T]
	var err error
	switch w.op {
	case opCreate:
		next, err = l.create(w, obj, c)
	case opDelete:
		next = remove(alive)
	default:
		next, err = l.update(w, obj, alive, c)
	}
	if err != nil || next == nil {
		return nil, err
	}
	next.Trace = w.trace
	return next, nil
}

// readable returns bad, the error of decoding have, if w needs the part that did not decode.
func (w *write[T]) readable(have *state[T], bad error) error {
	switch {
	case bad == nil || have == nil:
		return bad
	case have.deleted, w.op == opCreate:
		return nil
	case w.op == opDelete && have.UID != "": // the envelope has decoded
		return nil
	default:
		return bad
	}
}

// admit returns an error unless w may be applied to alive, the stored object, or nil if there is none.
func (w *write[T]) admit(obj *Object[T], alive *state[T]) error {
	var version informer.Version
	var uid string
	if alive != nil {
		version, uid = alive.Version, alive.UID
	}
	w.before = version
	var asked informer.Version
	for i := range w.pre {
		if v, ok := w.pre[i].Version(); ok {
			asked = v
		}
	}
	swap := w.op == opUpdate || w.op == opUpdateStatus
	if swap {
		asked = obj.Version
	}
	refuse := func(want informer.Version, err error) error {
		return &Error{Op: w.op, Kind: w.kind, Key: w.key, Have: version, Want: want, Err: err}
	}
	switch {
	case alive != nil && w.op == opCreate:
		return refuse(asked, ErrExists)
	case alive == nil && w.op != opCreate:
		return refuse(asked, ErrNotFound)
	}
	for i := range w.pre {
		if want, ok := w.pre[i].UID(); ok && want != uid {
			return refuse(asked, fmt.Errorf("%w: UID is %q, not %q", ErrConflict, uid, want))
		}
	}
	if swap && obj.UID != "" && obj.UID != uid {
		return refuse(asked, fmt.Errorf("%w: UID is %q, not %q", ErrConflict, uid, obj.UID))
	}
	for i := range w.pre {
		if want, ok := w.pre[i].Version(); ok && want != version {
			return refuse(want, fmt.Errorf("%w: version is %d, not %d", ErrConflict, version, want))
		}
	}
	if swap && obj.Version != version {
		return refuse(asked, fmt.Errorf("%w: version is %d, not %d", ErrConflict, version, obj.Version))
	}
	return nil
}

func (l lifecycle[T]) create(w *write[T], obj *Object[T], c *codec[T]) (*state[T], error) {
	next := &state[T]{Object: *obj, hidden: hidden{created: true}}
	next.deepenEnvelope()
	next.Kind = w.kind
	next.UID, next.Version, next.Generation, next.Created, next.Deleting = w.uid, 0, 1, now(), time.Time{}
	var err error
	next.raw, _, err = c.adopt(&next.Value, nil)
	return next, err
}

// update returns the state after an Update or an UpdateStatus of old, or nil if nothing changes.
func (l lifecycle[T]) update(w *write[T], obj *Object[T], old *state[T], c *codec[T]) (*state[T], error) {
	next := &state[T]{}
	switch { // next shares these values until adopt copies them
	case l.status == nil:
		next.Value = obj.Value
	case w.op == opUpdateStatus:
		next.Value = old.Value
		l.status.Set(reflect.ValueOf(&next.Value), reflect.ValueOf(&obj.Value))
	default:
		next.Value = obj.Value
		l.status.Set(reflect.ValueOf(&next.Value), reflect.ValueOf(&old.Value))
	}
	l.keepSince(&next.Value, &old.Value)
	var sameValue bool
	var err error
	next.raw, sameValue, err = c.adopt(&next.Value, old)
	if err != nil {
		return nil, err
	}
	envelope := obj
	if w.op == opUpdateStatus {
		envelope = &old.Object
	}
	sameEnvelope := next.setEnvelope(envelope, &old.Object)
	next.Kind, next.Key, next.UID, next.Created, next.Deleting, next.Generation = old.Kind, old.Key, old.UID, old.Created, old.Deleting, old.Generation
	if !sameValue && w.op == opUpdate { // the status is that of old, so another part differs
		next.Generation++
	}
	next.deleted = !next.Deleting.IsZero() && len(next.Finalizers) == 0
	if sameValue && sameEnvelope && !next.deleted {
		return nil, nil
	}
	if !sameEnvelope {
		next.before = labelsBefore(&next.Object, &old.Object)
	}
	return next, nil
}

// keepSince gives the conditions in next the Since of those in old whose OK is the same.
func (l lifecycle[T]) keepSince(next, old *T) {
	for _, at := range l.conditions {
		field := reflect.ValueOf(next).Elem().FieldByIndex(at)
		now := field.Interface().(Conditions)
		was := reflect.ValueOf(old).Elem().FieldByIndex(at).Interface().(Conditions)
		if kept, changed := now.since(was); changed {
			field.Set(reflect.ValueOf(kept))
		}
	}
}

// conditionsIn returns the fields of type Conditions in t and in the structs that it contains. It does not look behind pointers, slices, and
// maps.
func conditionsIn(t reflect.Type) (fields [][]int) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case !f.IsExported() && !f.Anonymous:
		case f.Type == reflect.TypeFor[Conditions]():
			if f.IsExported() {
				fields = append(fields, []int{i})
			}
		default:
			for _, at := range conditionsIn(f.Type) {
				fields = append(fields, append([]int{i}, at...))
			}
		}
	}
	return fields
}

// remove returns the state after a Delete of old, or nil if nothing changes. It shares the value, which is immutable.
func remove[T any](old *state[T]) *state[T] {
	if len(old.Finalizers) > 0 && !old.Deleting.IsZero() {
		return nil
	}
	next := &state[T]{Object: old.Object, hidden: hidden{raw: old.raw}}
	if len(old.Finalizers) == 0 {
		next.deleted = true
	} else {
		next.Deleting = now()
		next.Generation++
	}
	return next
}

// now returns the current time in UTC, without the monotonic clock reading, as it would come back from a database.
func now() time.Time { return time.Now().UTC().Round(0) }
