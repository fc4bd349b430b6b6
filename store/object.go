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

	// Owners are the objects that this one exists for. At most one of them is the controller.
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

// deepenEnvelope makes o, a shallow copy, share nothing but its value. Nil takes the place of an empty list: the two are
// the same to the store.
func (o *Object[T]) deepenEnvelope() {
	if len(o.Labels) == 0 {
		o.Labels = nil
	} else {
		o.Labels = maps.Clone(o.Labels)
	}
	if len(o.Owners) == 0 {
		o.Owners = nil
	} else {
		o.Owners = slices.Clone(o.Owners)
	}
	if len(o.Finalizers) == 0 {
		o.Finalizers = nil
	} else {
		o.Finalizers = slices.Clone(o.Finalizers)
	}
}

// sameEnvelope says whether a and b have the same labels, owners and finalizers.
func sameEnvelope[T any](a, b *Object[T]) bool {
	return maps.Equal(a.Labels, b.Labels) && slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Finalizers, b.Finalizers)
}
