package effective_test

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// create is a step in which the user creates an object, as soon as there is none of that key.
func create[T any](kind, key string, value T, finalizers ...string) simtest.Step {
	return simtest.Step{Name: "create " + kind + "/" + key, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[T](user, kind).Create(ctx, store.Object[T]{Key: key, Value: value, Finalizers: finalizers})
		if errors.Is(err, store.ErrExists) {
			return simtest.ErrNotYet
		}
		return err
	}}
}

// change is a step in which the user changes the value of an object, as soon as it is there. The name says what changes.
func change[T any](name, kind, key string, edit func(*T)) simtest.Step {
	return simtest.Step{Name: name, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := store.Patch(ctx, simtest.Open[T](user, kind), key, func(o *store.Object[T]) error {
			edit(&o.Value)
			return nil
		})
		if errors.Is(err, store.ErrNotFound) {
			return simtest.ErrNotYet
		}
		return err
	}}
}

// remove is a step in which the user deletes an object.
func remove[T any](kind, key string) simtest.Step {
	return simtest.Step{Name: "delete " + kind + "/" + key, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[T](user, kind).Delete(ctx, key)
		return err
	}}
}
