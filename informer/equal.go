package informer

import (
	"context"
	"iter"
	"reflect"
	"time"
)

// Equaler is what a source may be besides a [ListWatcher]: one that knows when two states of an object are the same, such
// as a database whose rows carry a version. An [Informer] asks it of each object that a new list brings and the cache holds
// already. If they are the same, nothing has happened: the cache keeps the object that it has, and no handler is told. So
// a list after a gap costs next to nothing where nothing has changed.
//
// For a source that is no Equaler, objects are the same if they are equal by ==, which is exact for plain values such as
// numbers and strings, and for pointers means that it is the same object, which nobody changes. An object that is not
// comparable, or has an interface in it, is never the same.
//
// It is about lists alone: an event is always told. See [WithEqual].
type Equaler[T any] interface {
	// Equal reports whether two states of one object, by key, are the same. It may be called by several goroutines at
	// once. If it panics the informer reports it, and takes them for different.
	//
	// The informer does not ask across an [Informer.Reset]: a version may mean another state in another history.
	Equal(a, b T) bool
}

// WithEqual returns src as an [Equaler] by equal, which is mostly made by [EqualBy]:
//
//	informer.WithEqual(src, informer.EqualBy(func(s Site) uint64 { return s.Rev }))
//
// With a function that always says no, each new list is told as updates of all objects.
func WithEqual[T any](src ListWatcher[T], equal func(a, b T) bool) ListWatcher[T] {
	if src == nil || equal == nil {
		panic("informer: WithEqual needs a source and a function")
	}
	return &withEqual[T]{src, pagesOf(src), equal}
}

type withEqual[T any] struct {
	ListWatcher[T]
	pages func(context.Context) iter.Seq2[List[T], error]
	equal func(a, b T) bool
}

func (w *withEqual[T]) Equal(a, b T) bool { return w.equal(a, b) }

func (w *withEqual[T]) BookmarkPeriod() time.Duration { return bookmarkPeriod(w.ListWatcher) }

func (w *withEqual[T]) ListPages(ctx context.Context) iter.Seq2[List[T], error] { return w.pages(ctx) }

// equalOf returns the equality of the objects of src, or nil if there is none.
func equalOf[T any](src ListWatcher[T]) func(a, b T) bool {
	if e, ok := src.(Equaler[T]); ok {
		return e.Equal
	}
	if isPlain(reflect.TypeFor[T]()) {
		return func(a, b T) bool { return any(a) == any(b) }
	}
	return nil
}

// isPlain reports whether values of t can be compared by ==, which never panics.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return isPlain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !isPlain(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return t.Comparable()
	}
}
