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

// Object is the envelope around one value: what the store and its controllers know of it. The value itself needs no
// field for any of that.
//
// The caller owns Key, Value, Labels, Owners and Finalizers. The store owns the rest: what a caller writes there is ignored,
// but for Version and UID, which an Update compares with what is stored.
type Object[T any] struct {
	// Kind is the name of the kind of the object. The store sets it in every object that it returns or sends.
	Kind string

	// Key identifies the object within its kind. It is not empty and never changes. A key in a
	// namespace is written "namespace/name"; see [Selector].
	Key string

	// Value is the content: plain data. Part of it may be status: see the package documentation.
	Value T

	// UID tells one life of a key from the next: an object that is created again under the same key has another.
	UID string

	// Version is the version of the store right after the last change of this object.
	Version informer.Version

	// Generation counts what was asked for: it is 1 for a new object and grows by one when an Update changes the Value
	// and when a deletion begins. A change of the status, or of Labels, Owners and Finalizers, leaves it alone. A
	// controller that writes the generation that it acted upon into the status tells others how far it is.
	Generation int64

	// Labels are for finding the object, see [Selector].
	Labels map[string]string

	// Owners are the objects that this one exists for. At most one of them is the controller. A collector of package
	// controller deletes the object when all of them are gone.
	Owners []OwnerRef

	// Finalizers name the work that has to be done before the object may go. While there is one, Delete only sets
	// Deleting.
	Finalizers []string

	// Created is when the object was created, by the clock of the store.
	Created time.Time

	// Deleting is when the deletion was asked for, by the clock of the store. Zero means that it was not.
	Deleting time.Time
}

// Ref returns a reference to this life of o. It is complete if o comes from a store.
func (o Object[T]) Ref() Ref { return Ref{Kind: o.Kind, Key: o.Key, UID: o.UID} }

// At returns the kind of o and its version: the last change of o, among those of its kind. Controller.WaitReconciled of package
// controller waits until that has been acted upon.
func (o Object[T]) At() (kind string, version informer.Version) { return o.Kind, o.Version }

// Key returns the key of o. It is the cache.KeyFunc of objects: informer.New(apps, store.Key, informer.Config{}).
func Key[T any](o Object[T]) string { return o.Key }

// GenerationChanged reports whether an update asks for something else: new has another Generation than old, or another UID.
// It is for controllers that write the status of the objects that they watch, to pass over their own writes.
func GenerationChanged[T any](old, new Object[T]) bool {
	return old.Generation != new.Generation || old.UID != new.UID
}

// Ref refers to an object of any kind. With a UID, it refers to one life of the object: an object that was created again
// under the same key has another UID.
type Ref struct{ Kind, Key, UID string }

// OwnerRef refers to an owner of the object that carries the reference.
type OwnerRef struct {
	Ref // to one life of the owner, so UID is set

	// Controller is true for the one owner that decides about the object.
	Controller bool
}

// Informer mirrors the objects of a [Store].
type Informer[T any] = informer.Informer[string, Object[T]]

// deepenEnvelope makes o, a shallow copy, share nothing but its value.
func (o *Object[T]) deepenEnvelope() {
	o.Labels, o.Owners, o.Finalizers = copyOfMap(o.Labels), copyOfList(o.Owners), copyOfList(o.Finalizers)
}

// setEnvelope gives o the labels, owners and finalizers of another object. It shares with base, which never changes, those
// that are the same, and copies the others. It returns whether all are the same.
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

// copyOfList returns a copy of list. Nil takes the place of an empty list: the two are the same to the store.
func copyOfList[E any](list []E) []E {
	if len(list) == 0 {
		return nil
	}
	return slices.Clone(list)
}

// copyOfMap is copyOfList of a map.
func copyOfMap[K comparable, E any](m map[K]E) map[K]E {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// labelsBefore returns the labels of old for a next that has others, and nil if it has the same.
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

// Condition is one thing that a controller says about an object, in its status: whether it is so, since when, and why.
type Condition struct {
	Type string // what it is about, such as "Ready"
	OK   bool   // whether it is so

	Reason  string // why, in one word for programs, such as "ImagePullFailed"
	Message string // why, for people

	// Generation is the Object.Generation that was looked at. If it is less than that of the object, the condition is about
	// an object that somebody has changed since.
	Generation int64

	// Since is when OK last changed. Set sees to it.
	Since time.Time
}

// Conditions are what the status of an object says, one of each Type, in the order in which they came. The zero value is
// ready to use.
type Conditions []Condition

// Set puts c in the place of the condition of its type, or adds it. Since is the time of now if OK differs from before, or
// nothing was said before; else it stays as it was, and what c says there is ignored. Set reports whether anything has
// changed. It changes no array that others may share, so a copy of Conditions stays as it was.
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

// Get returns the condition of a type. False means that nothing is said about it.
func (cs Conditions) Get(conditionType string) (Condition, bool) {
	for _, c := range cs {
		if c.Type == conditionType {
			return c, true
		}
	}
	return Condition{}, false
}

// AllOK reports whether the conditions of all these types are said to be so, of a generation or a later one. Without types
// it is about all that are there, and there has to be one.
func (cs Conditions) AllOK(generation int64, types ...string) bool {
	if len(types) == 0 {
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

// checkName returns an error unless s is what a backend can hold as the name of something.
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

// checkText returns an error unless every backend returns s as it is.
func checkText(what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("the %s %q is not UTF-8", what, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("the %s %q contains NUL", what, s)
	}
	return nil
}

// checkEnvelope returns an error unless the parts of o that the caller owns, but for the key and the value, can be stored.
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

// checkSelector returns an error unless sel can be asked of every backend.
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
