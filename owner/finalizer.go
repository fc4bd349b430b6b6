package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// Finalizer lets a controller create something outside the store for an object, and remove it before the object goes. Once Apply has begun
// for an object, Cleanup succeeds for it before the store removes the object, wherever the process stops in between. So Apply and Cleanup
// may be called again at any time, and must be idempotent.
//
// This holds as long as one goroutine at a time reconciles a key, as in a controller, and no other code removes the finalizer. Reconcile
// may be called for several keys concurrently if Apply and Cleanup may.
//
// If a process loses the lease while a request of Apply is in flight, the request can arrive after the Cleanup of the next leader. Whatever
// it creates is left behind. No order of calls in this process prevents that. Send the term of the leadership along
// (leaderelect.FromContext), and let the receiver reject lower terms, as package leaderelect/fence does.
type Finalizer[T any] struct {
	// Name is the entry in the Finalizers of an object. It is required, and must be unique among the finalizers.
	Name string

	// Apply creates what the object specifies. It is required. If it takes a while, start it and return an error of retry.NotYet.
	Apply func(ctx context.Context, obj store.Object[T]) error

	// Cleanup removes what Apply may have created, in whole or in part. It is required. An error keeps the object, and Cleanup is called
	// again. If the removal takes minutes, start it and return an error of retry.NotYet that says so, with the time after which to check
	// again. Never wrap a nil error: retry.NotYet(nil, d) is nil, and lets the object go.
	Cleanup func(ctx context.Context, obj store.Object[T]) error
}

// Reconcile reads the object under key from the store, since a cache may still show an object that is gone. Then:
//   - If the object lives, Reconcile adds the finalizer unless it is there, and calls Apply once that is stored.
//   - If the object is being deleted and has the finalizer, Reconcile calls Cleanup. After Cleanup has succeeded,
//     Reconcile removes the finalizer.
//   - If the object is being deleted without the finalizer, or is gone, Reconcile does nothing.
//
// It returns the object as it last read or wrote it, even with an error. So the rest of a reconcile can use it, and an update of it is no
// conflict. The object is zero if there is none. It does not include what Apply itself wrote to the object. The result live is true if the
// object exists and is not being deleted.
//
// An error of Apply or Cleanup is wrapped, so it stays one of retry.NotYet, retry.After, or retry.Permanent. Every other error may be
// retried. Reconcile panics if a field of f is missing.
func (f Finalizer[T]) Reconcile(ctx context.Context, objects store.Store[T], key string) (o store.Object[T], live bool, err error) {
	f.check()
	o, err = objects.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return store.Object[T]{}, false, nil
	}
	if err != nil {
		return store.Object[T]{}, false, fmt.Errorf("owner: finalize %s %q: %w", objects.Kind(), key, err)
	}
	if o.Deleting.IsZero() {
		o, err = f.apply(ctx, objects, o)
		return o, true, err
	}
	if slices.Contains(o.Finalizers, f.Name) {
		o, err = f.cleanup(ctx, objects, o)
	}
	return o, false, err
}

// apply adds the finalizer to o, which lives, and calls Apply. It returns o as stored.
func (f Finalizer[T]) apply(ctx context.Context, objects store.Store[T], o store.Object[T]) (store.Object[T], error) {
	if !slices.Contains(o.Finalizers, f.Name) {
		with := o
		with.Finalizers = slices.Concat(o.Finalizers, []string{f.Name})
		stored, err := objects.Update(ctx, with)
		if err != nil {
			return o, fmt.Errorf("owner: add finalizer %q: %w", f.Name, err)
		}
		o = stored
	}
	if err := f.Apply(ctx, o); err != nil {
		return o, fmt.Errorf("owner: apply %q to %s %q: %w", f.Name, objects.Kind(), o.Key, err)
	}
	return o, nil
}

// cleanup calls Cleanup for o, which is being deleted, and removes the finalizer. It returns o as stored.
func (f Finalizer[T]) cleanup(ctx context.Context, objects store.Store[T], o store.Object[T]) (store.Object[T], error) {
	if err := f.Cleanup(ctx, o); err != nil {
		return o, fmt.Errorf("owner: clean up %q of %s %q: %w", f.Name, objects.Kind(), o.Key, err)
	}
	stored, err := store.Patch(ctx, objects, o.Key, func(o *store.Object[T]) error {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(name string) bool { return name == f.Name })
		return nil
	}, store.IfUID(o.UID))
	switch {
	case err == nil:
		return stored, nil
	case errors.Is(err, store.ErrNotFound): // another writer removed the finalizer
		return o, nil
	default:
		return o, fmt.Errorf("owner: remove finalizer %q: %w", f.Name, err)
	}
}

// check panics if f lacks a field.
func (f Finalizer[T]) check() {
	switch {
	case f.Name == "":
		panic("owner: reconcile a finalizer: Name: is empty")
	case f.Apply == nil:
		panic("owner: reconcile a finalizer: Apply: is nil")
	case f.Cleanup == nil:
		panic("owner: reconcile a finalizer: Cleanup: is nil")
	}
}
