package owner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/store"
)

// Finalizer lets a controller make something outside of the store for an object, and take it away before the object goes.
// Its guarantee: once Apply has begun for an object, Cleanup has succeeded for it before the store lets it go, wherever the
// process stops in between. Whatever is called may therefore be called again, and has to be idempotent.
//
// It holds as long as one goroutine at a time reconciles a key, as a controller does, and nobody else removes the
// finalizer. Its method may be called for several keys at once, if the functions may.
type Finalizer[T any] struct {
	// Name is the entry in the Finalizers of an object. It is not empty, and no other finalizer has it.
	Name string

	// Apply makes what the object asks for.
	Apply func(ctx context.Context, obj store.Object[T]) error

	// Cleanup takes away what Apply may have made, in whole or in part.
	Cleanup func(ctx context.Context, obj store.Object[T]) error
}

// Reconcile reads the object under key, freshly, since a cache may show an object that is gone. Then it does one of:
//   - the object lives: it adds the finalizer, if it is not there, and calls Apply only after that is stored;
//   - it is being deleted and has the finalizer: it calls Cleanup, and removes the finalizer only after that has succeeded;
//   - it is being deleted without the finalizer, or is gone: nothing.
//
// Every error is worth trying again. The preconditions, store.IfTerm for one, are those of the writes.
func (f Finalizer[T]) Reconcile(ctx context.Context, objects store.Store[T], key string, pre ...store.Precondition) error {
	if f.Name == "" {
		panic("owner: a finalizer has no name")
	}
	obj, err := objects.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("owner: finalize %s %q: %w", objects.Kind(), key, err)
	}
	has := slices.Contains(obj.Finalizers, f.Name)
	if obj.Deleting.IsZero() {
		if !has {
			obj.Finalizers = append(obj.Finalizers, f.Name)
			if obj, err = objects.Update(ctx, obj, pre...); err != nil {
				return fmt.Errorf("owner: add finalizer %q: %w", f.Name, err)
			}
		}
		return f.Apply(ctx, obj)
	}
	if !has {
		return nil
	}
	if err := f.Cleanup(ctx, obj); err != nil {
		return err
	}
	only := append([]store.Precondition{store.IfUID(obj.UID)}, pre...)
	_, err = store.Patch(ctx, objects, key, func(o *store.Object[T]) error {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(name string) bool { return name == f.Name })
		return nil
	}, only...)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("owner: remove finalizer %q: %w", f.Name, err)
	}
	return nil
}
