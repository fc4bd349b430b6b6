package store

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/statustag"
)

// keptRequests is how many ids of [RequestID] are remembered with each key.
const keptRequests = 8

// state is an object as it is stored, with what else has to be known of it. What is stored never changes.
type state[T any] struct {
	Object[T]
	hidden
	codec *codec[T] // set where a Memory holds the state
}

// hidden is the part of a state that callers do not see.
type hidden struct {
	deleted  bool              // it is a tombstone: the object is gone, and this is its last state
	created  bool              // the write of this version created it
	before   map[string]string // its labels before this write; nil if they were the same, or there was no object
	requests []request         // the last accepted writes that had an id, oldest first
	raw      []byte            // the encoded value, where there is one; the Value is zero if it does not decode
}

// request is an accepted write that had an id.
type request struct {
	ID string `json:"id"`
	Op string `json:"op"`
}

// write is what a caller asks for, but for the object: apart from the rest, the object need not be allocated.
type write[T any] struct {
	op, kind, key string
	pre           []Precondition
	uid           string // for a creation
}

// values copies and compares the values of a kind.
type values[T any] interface {
	// Adopt makes v, which a caller has given, a value to be stored, which nobody else can change. It reports whether it
	// is the same as base, a stored one, or nil. The error says which part of v cannot be stored.
	Adopt(v, base *T) (same bool, err error)
}

// lifecycle is what a write makes of an object. It is the one place that knows: all backends go through it.
type lifecycle[T any] struct {
	status statustag.Fields // of T
}

// decide returns the state that w, with obj unless it is a deletion, makes of have, which is nil if there is nothing and may be a tombstone. A state of nil
// means that there is nothing to write, and that have is the answer. It changes nothing but what it returns, so it may be
// called again.
func (l lifecycle[T]) decide(w *write[T], obj *Object[T], have *state[T], vs values[T]) (*state[T], error) {
	if again, err := w.repeats(have); err != nil || again {
		return nil, err
	}
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
		next, err = l.create(w, obj, vs)
	case opDelete:
		next = remove(alive)
	default:
		next, err = l.update(w, obj, alive, vs)
	}
	if err != nil || next == nil {
		return nil, err
	}
	if have != nil {
		next.requests = have.requests
	}
	if id := requestOf(w.pre); id != "" {
		kept := next.requests[max(len(next.requests)-(keptRequests-1), 0):]
		next.requests = append(slices.Clone(kept), request{id, w.op})
	}
	return next, nil
}

// repeats reports whether w was accepted before, under its id.
func (w *write[T]) repeats(have *state[T]) (bool, error) {
	id := requestOf(w.pre)
	if id == "" || have == nil {
		return false, nil
	}
	for _, r := range have.requests {
		switch {
		case r.ID != id:
		case r.Op == w.op:
			return true, nil
		default:
			return false, fmt.Errorf("%w: the request id %q belongs to another write, to %s the object", ErrInvalid, id, r.Op)
		}
	}
	return false, nil
}

// readable returns bad, the error of decoding have, if w cannot do without what did not decode.
func (w *write[T]) readable(have *state[T], bad error) error {
	switch {
	case bad == nil || have == nil:
		return bad
	case have.deleted, w.op == opCreate:
		return nil
	case w.op == opDelete && have.UID != "": // the envelope did decode
		return nil
	default:
		return bad
	}
}

// admit returns an error unless w may be applied to the object that is there, or nil.
func (w *write[T]) admit(obj *Object[T], alive *state[T]) error {
	var version informer.Version
	var uid string
	if alive != nil {
		version, uid = alive.Version, alive.UID
	}
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

func (l lifecycle[T]) create(w *write[T], obj *Object[T], vs values[T]) (*state[T], error) {
	next := &state[T]{Object: *obj, hidden: hidden{created: true}}
	next.deepenEnvelope()
	next.Kind = w.kind
	next.UID, next.Version, next.Generation, next.Created, next.Deleting = w.uid, 0, 1, now(), time.Time{}
	if _, err := vs.Adopt(&next.Value, nil); err != nil {
		return nil, err
	}
	return next, nil
}

// update returns what an Update or an UpdateStatus makes of old, or nil if that is nothing new.
func (l lifecycle[T]) update(w *write[T], obj *Object[T], old *state[T], vs values[T]) (*state[T], error) {
	next := &state[T]{}
	switch { // Adopt copies what next is given here
	case l.status == nil:
		next.Value = obj.Value
	case w.op == opUpdateStatus:
		given := new(T) // so that obj need not be allocated
		*given, next.Value = obj.Value, old.Value
		l.status.Set(reflect.ValueOf(&next.Value), reflect.ValueOf(given))
	default:
		next.Value = obj.Value
		l.status.Set(reflect.ValueOf(&next.Value), reflect.ValueOf(&old.Value))
	}
	sameValue, err := vs.Adopt(&next.Value, &old.Value)
	if err != nil {
		return nil, err
	}
	envelope := obj
	if w.op == opUpdateStatus {
		envelope = &old.Object
	}
	sameEnvelope := next.setEnvelope(envelope, &old.Object)
	next.Kind, next.Key, next.UID, next.Created, next.Deleting, next.Generation = old.Kind, old.Key, old.UID, old.Created, old.Deleting, old.Generation
	if !sameValue && w.op == opUpdate { // the status is that of old: it is what was asked for that differs
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

// remove returns what a Delete makes of old, or nil if that is nothing new. It shares the value, which never changes.
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

// now is the time as a database gives it: in UTC, and without the reading of the monotonic clock.
func now() time.Time { return time.Now().UTC().Round(0) }
