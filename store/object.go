package store

import (
	"maps"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

// Object is the envelope around one value: what the store and its controllers know of it. The value itself needs no
// field for any of that.
//
// The caller owns Key, Value, Labels, Owners and Finalizers. The store owns the rest: what a caller writes there is ignored,
// but for Version and UID, which an Update compares with what is stored.
type Object[T any] struct {
	// Key identifies the object within its kind. It is not empty and never changes. Where keys have namespaces, they
	// are written "namespace/name", as by the String method of cache.Name; see [InNamespace].
	Key string

	// Value is the content: plain data. Part of it may be status, see [Statused].
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

	// Owners are the objects that this one exists for. At most one of them is the controller. An owner.Collector deletes
	// the object when all of them are gone.
	Owners []OwnerRef

	// Finalizers name the work that has to be done before the object may go. While there is one, Delete only sets
	// Deleting.
	Finalizers []string

	// Created is when the object was created, by the clock of the store.
	Created time.Time

	// Deleting is when the deletion was asked for, by the clock of the store. Zero means that it was not.
	Deleting time.Time
}

// Ref returns a reference to o, an object of the given kind. It is not a controlling one.
func (o Object[T]) Ref(kind string) OwnerRef {
	return OwnerRef{Kind: kind, Key: o.Key, UID: o.UID}
}

// Key returns the key of o. It is the cache.KeyFunc of objects: informer.New(apps, store.Key[App], informer.Config{}).
func Key[T any](o Object[T]) string { return o.Key }

// OwnerRef refers to one life of an object of any kind, which owns the object that carries the reference.
type OwnerRef struct {
	Kind, Key string

	// UID is the one of the owner. An object with another UID under the same key is not the owner.
	UID string

	// Controller is true for the one owner that decides about the object.
	Controller bool
}

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
