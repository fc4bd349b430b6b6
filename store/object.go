package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Object is a value with its metadata.
//
// Your code sets Key, Value, Labels, Owners, and Finalizers. The store sets the other fields and ignores what your code writes there,
// except that an Update compares Version and UID with the stored ones.
//
// The life of an object:
//
//	            Create                 Update that changes something
//	nothing ---------------> present <---------------+
//	   ^                      |  |  \________________/
//	   |  Delete, if it has   |  |
//	   |  no finalizers       |  |  Delete, if it has finalizers
//	   +----------------------+  |
//	   |                         v
//	   |                      deleting <---------------+
//	   |   Update that leaves    |   \________________/
//	   |   no finalizers         |    Update that leaves some
//	   +-------------------------+
//
// A key that is created again begins another life, with another UID.
type Object[T any] struct {
	// Kind is the name of the kind of the object.
	Kind string

	// Key identifies the object within its kind. It is not empty and never changes. By convention, a key in a namespace is
	// "namespace/name": a [Selector] selects by prefix.
	Key string

	// Value is the content. Some of its fields may be status: see the package documentation.
	Value T

	// UID identifies one life of the key. An object that is created again under the same key has another UID.
	UID string

	// Version is the version of the backend right after the last change of this object.
	Version informer.Version

	// Generation is 1 for a new object. It increases by one when an Update changes the Value and when Deleting is set. A change of the
	// status, or of Labels, Owners, and Finalizers, does not increase it. A controller can write the generation that it acted on into the
	// status, to show whether it has seen the latest change.
	Generation int64

	// Labels are the names and values that a [Selector] selects by.
	Labels map[string]string

	// Owners are the objects that this one exists for. At most one of them is its controller. The collector of package
	// controller deletes the object when all owners are gone.
	Owners []OwnerRef

	// Finalizers name the work to be done before the object is removed. While there is one, Delete only sets Deleting.
	Finalizers []string

	// Created is the time of the Create, by the clock of the process that called it.
	Created time.Time

	// Deleting is the time of the first Delete, by the clock of the process that called it. It is zero before that, and in the last state of
	// an object that had no finalizers: such an object is removed at once.
	Deleting time.Time

	// Trace is the trace context of the last change of this object: what [Config].Trace returned for the context of the write. It
	// is empty if there was none.
	Trace string
}

// Ref returns a reference to this life of o. The reference is complete if o was returned by a store.
func (o Object[T]) Ref() Ref { return Ref{Kind: o.Kind, Key: o.Key, UID: o.UID} }

// At returns the kind and the version of o. Pass them to Controller.WaitReconciled of package controller to wait until the last change
// of o was acted on.
func (o Object[T]) At() (kind string, version informer.Version) { return o.Kind, o.Version }

// TraceContext returns Trace. A controller with Hooks.Trace calls it for the objects of its watches. Your own type with this method, such
// as a row of a table with a column for it, is traced in the same way.
func (o Object[T]) TraceContext() string { return o.Trace }

// Key returns the key of o. It is a cache.KeyFunc: informer.New(apps, store.Key, informer.Config{}).
func Key[T any](o Object[T]) string { return o.Key }

// GenerationChanged reports whether old and new differ in Generation or UID. A controller that writes the status of the objects that it
// watches passes it to Watch.When of package controller, and so ignores its own writes.
func GenerationChanged[T any](old, new Object[T]) bool {
	return old.Generation != new.Generation || old.UID != new.UID
}

// Ref refers to an object of any kind. If UID is set, it refers to one life of the object.
type Ref struct{ Kind, Key, UID string }

// OwnerRef refers to an owner of the object that carries the reference.
type OwnerRef struct {
	Ref // with UID set

	// Controller is true for the one owner that manages the object.
	Controller bool
}

// Informer mirrors the objects of a [Store].
type Informer[T any] = informer.Informer[string, Object[T]]

// deepenEnvelope makes o, a shallow copy, a deep copy except for its value.
func (o *Object[T]) deepenEnvelope() {
	o.Labels, o.Owners, o.Finalizers = copyOfMap(o.Labels), copyOfList(o.Owners), copyOfList(o.Finalizers)
}

// setEnvelope sets labels, owners, and finalizers of o to those of from. Those that equal the ones of base are shared with base, which
// is immutable; the others are copied. It reports whether all are equal.
func (o *Object[T]) setEnvelope(from, base *Object[T]) (same bool) {
	o.Labels, o.Owners, o.Finalizers = base.Labels, base.Owners, base.Finalizers
	same = true
	if !maps.Equal(from.Labels, base.Labels) {
		o.Labels, same = copyOfMap(from.Labels), false
	}
	if !slices.Equal(from.Owners, base.Owners) {
		o.Owners, same = copyOfList(from.Owners), false
	}
	if !slices.Equal(from.Finalizers, base.Finalizers) {
		o.Finalizers, same = copyOfList(from.Finalizers), false
	}
	return same
}

// copyOfList returns a copy of list, or nil if list is empty: to the store, the two are the same.
func copyOfList[E any](list []E) []E {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

// copyOfMap is copyOfList for a map.
func copyOfMap[K comparable, E any](m map[K]E) map[K]E {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// labelsBefore returns the labels of old if those of next differ. If not, it returns nil.
func labelsBefore[T any](next, old *Object[T]) map[string]string {
	switch {
	case maps.Equal(next.Labels, old.Labels):
		return nil
	case old.Labels == nil:
		return map[string]string{}
	default:
		return old.Labels
	}
}

// Condition is one fact that a controller reports in the status of an object.
type Condition struct {
	Type string // the fact, such as "Ready"
	OK   bool   // whether it is true

	Reason  string // the reason, in one word for programs, such as "ImagePullFailed"
	Message string // the reason, for people

	// Generation is the Object.Generation that the controller has seen. If it is less than that of the object, the condition is
	// stale.
	Generation int64

	// Since is the time of the last change of OK. Set sets it. A write to a store keeps the stored Since if OK is as stored, so a change
	// there and back in one reconcile changes nothing, and neither do Conditions that are built anew each time.
	Since time.Time
}

// Conditions are the conditions in the status of an object, one of each Type, oldest first. The zero value is ready to use. Make them a field
// of the value, or of a struct in it: a store does not find them behind a pointer, or in a slice or a map, to keep their Since.
type Conditions []Condition

// Set replaces the condition of the same Type, or appends c. If OK has changed, or there was no such condition, Since becomes the
// current time. If not, Since keeps its value, and the Since of c is ignored. Set reports whether anything has changed. It
// allocates a new array, so copies of Conditions stay as they are.
func (cs *Conditions) Set(c Condition) (changed bool) {
	next := make(Conditions, len(*cs), len(*cs)+1)
	copy(next, *cs)
	for i, was := range next {
		if was.Type != c.Type {
			continue
		}
		if c.Since = was.Since; c.OK != was.OK {
			c.Since = now()
		}
		if c == was {
			return false
		}
		next[i] = c
		*cs = next
		return true
	}
	c.Since = now()
	*cs = append(next, c)
	return true
}

// since returns cs in which each condition has the Since of the one of its type in was, if OK is the same. It returns false if that changes
// nothing.
func (cs Conditions) since(was Conditions) (kept Conditions, changed bool) {
	kept = cs
	for i, c := range cs {
		before, ok := was.Get(c.Type)
		if !ok || before.OK != c.OK || before.Since.Equal(c.Since) {
			continue
		}
		if !changed {
			kept, changed = slices.Clone(cs), true // others may have the same array
		}
		kept[i].Since = before.Since
	}
	return kept, changed
}

// Get returns the condition of a type, or false if there is none.
func (cs Conditions) Get(conditionType string) (Condition, bool) {
	for _, c := range cs {
		if c.Type == conditionType {
			return c, true
		}
	}
	return Condition{}, false
}

// AllOK reports whether the conditions of all these types are OK and at least of that generation. Without types, it considers all
// conditions in cs, and returns false if there are none.
func (cs Conditions) AllOK(generation int64, types ...string) bool {
	if len(types) == 0 {
		types = nil // the array belongs to the caller
		for _, c := range cs {
			types = append(types, c.Type)
		}
	}
	for _, t := range types {
		if c, _ := cs.Get(t); !c.OK || c.Generation < generation {
			return false
		}
	}
	return len(types) > 0
}

// checkName returns an error unless every backend can store s as a name.
func checkName(what, s string, limit int) error {
	switch {
	case s == "":
		return fmt.Errorf("the %s is empty", what)
	case len(s) > limit:
		return fmt.Errorf("the %s has %d bytes, %d are allowed", what, len(s), limit)
	default:
		return checkText(what, s)
	}
}

// checkText returns an error unless every backend can store s.
func checkText(what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s %q is not UTF-8", what, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("the %s %q contains NUL", what, s)
	}
	return nil
}

// maxTrace is the largest length of a trace context in bytes. W3C requires at least 512 for tracestate, after 55 for traceparent.
const maxTrace = 1024

// cleanTrace returns trace, or an empty text if trace is too long or not printable ASCII: tracing never fails a write.
func cleanTrace(trace string) string {
	if len(trace) > maxTrace {
		return ""
	}
	for i := range len(trace) {
		if trace[i] < ' ' || trace[i] > '~' {
			return ""
		}
	}
	return trace
}

// checkEnvelope returns an error unless every backend can store the labels, owners, and finalizers of o.
func checkEnvelope[T any](o *Object[T]) error {
	for label, value := range o.Labels {
		if err := checkName("label", label, backend.MaxKey); err != nil {
			return err
		}
		if err := checkText("value of label "+label, value); err != nil {
			return err
		}
	}
	for _, ref := range o.Owners {
		for _, s := range []string{ref.Kind, ref.Key, ref.UID} {
			if err := checkText("reference to an owner", s); err != nil {
				return err
			}
		}
	}
	for _, f := range o.Finalizers {
		if err := checkText("finalizer", f); err != nil {
			return err
		}
	}
	return nil
}

// checkSelector returns an error unless every backend can evaluate sel.
func checkSelector(sel *Selector) error {
	if err := checkText("prefix", sel.Prefix); err != nil {
		return err
	}
	for _, rule := range sel.Labels {
		if err := checkText("label", rule.Label); err != nil {
			return err
		}
		for _, value := range rule.Values {
			if err := checkText("value of label "+rule.Label, value); err != nil {
				return err
			}
		}
	}
	return nil
}
