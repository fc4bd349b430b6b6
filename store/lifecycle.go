package store

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/envelope"
	"github.com/setpoint-go/setpoint/internal/statustag"
)

// keptRequests is the number of [RequestID] ids that are remembered with each key.
const keptRequests = 8

// state is an object as it is stored, with its hidden part. A stored state is immutable.
type state[T any] struct {
	Object[T]
	hidden
	codec *codec[T] // set if a Memory holds the state
}

// hidden is the part of a state that callers do not see.
type hidden struct {
	deleted  bool               // a tombstone: the object is gone, and this is its last state
	created  bool               // the write of this version created the object
	before   map[string]string  // the labels before this write; nil if they were the same, or there was no object
	requests []envelope.Request // the last accepted writes that had an id, oldest first
	raw      []byte             // the encoded value, where there is one; the Value is zero if it does not decode
}

// write is the request of a caller, without the object, which is passed separately so that it need not be allocated.
type write[T any] struct {
	op, kind, key string
	pre           []Precondition
	uid           string // for a creation
	trace         string
	over          error // the ErrFenced of a write with an id, if its own terms show that one is over; a repetition is accepted all the same
}

// values copies and compares the values of a kind.
type values[T any] interface {
	// Adopt makes v, which a caller has passed, a value to store, which the caller cannot change. It reports whether v equals base,
	// a stored value or nil. The error names the part of v that cannot be stored.
	Adopt(v, base *T) (same bool, err error)
}

// lifecycle computes the next state of an object from a write. Writes to all backends go through it.
type lifecycle[T any] struct {
	status statustag.Fields // of T
}

// decide returns the state to store after the write w of obj, which is nil for a deletion. Have is the stored state: nil if there is
// none, and possibly a tombstone. If decide returns nil, there is nothing to write, and have is the result. It has no side
// effects, so it may be called again.
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
	next.Trace = w.trace
	if have != nil {
		next.requests = have.requests
	}
	if id := requestOf(w.pre); id != "" {
		kept := next.requests[max(len(next.requests)-(keptRequests-1), 0):]
		next.requests = append(slices.Clone(kept), envelope.Request{ID: id, Op: w.op})
	}
	return next, nil
}

// repeats reports whether a write with the id of w was accepted before.
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

// update returns the state after an Update or an UpdateStatus of old, or nil if nothing changes.
func (l lifecycle[T]) update(w *write[T], obj *Object[T], old *state[T], vs values[T]) (*state[T], error) {
	next := &state[T]{}
	switch { // next shares these values until Adopt copies them
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
