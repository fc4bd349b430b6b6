package controller

import (
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Change is one change of an object, as a [Filter] sees it.
type Change[T any] struct {
	// Type is informer.Added, also for what was there before, informer.Modified or informer.Deleted.
	Type informer.EventType

	// Old is the state before: the zero value of an object that is new, the last state of one that is deleted.
	Old T

	// New is the state now: the zero value of an object that is deleted.
	New T
}

// Filter tells whether a change matters to a [Watch]. It is called by one goroutine. If it panics, the change counts.
type Filter[T any] func(c Change[T]) bool

// Changed returns a filter for updates: they matter only if what of returns is different for the old and the new state. It
// can be a version, a generation, a hash, or a struct of the fields that matter. What is new or deleted always passes, and
// so does an object that takes the place of another under its key.
//
// An update that changes nothing, as that of a resync, does not pass.
func Changed[T any, V comparable](of func(T) V) Filter[T] {
	if of == nil {
		panic("controller: Changed called with a nil function")
	}
	return func(c Change[T]) bool { return c.Type != informer.Modified || of(c.Old) != of(c.New) }
}

// AnyOf returns a filter that a change passes if it passes one of those given.
func AnyOf[T any](filters ...Filter[T]) Filter[T] {
	if slices.ContainsFunc(filters, func(f Filter[T]) bool { return f == nil }) {
		panic("controller: AnyOf called with a nil filter")
	}
	filters = slices.Clone(filters)
	return func(c Change[T]) bool {
		for _, f := range filters {
			if f(c) {
				return true
			}
		}
		return false
	}
}

// GenerationChanged is the filter of a controller that writes the status of what it watches: its own writes are not news.
// An update matters only if the generation of the object has changed, or if it is another object.
func GenerationChanged[T any](c Change[store.Object[T]]) bool {
	return c.Type != informer.Modified || c.Old.Generation != c.New.Generation || c.Old.UID != c.New.UID
}

// VersionChanged is a filter that leaves out what was told before: a resync, and the objects of a new list that are as they
// were.
func VersionChanged[T any](c Change[store.Object[T]]) bool {
	return c.Type != informer.Modified || c.Old.Version != c.New.Version
}
