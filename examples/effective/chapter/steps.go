package chapter

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// Create is a step in which the user creates an object, as soon as there is none of that key.
func Create[T any](kind, key string, value T, finalizers ...string) simtest.Step {
	return simtest.Step{Name: "create " + kind + "/" + key, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[T](user, kind).Create(ctx, store.Object[T]{Key: key, Value: value, Finalizers: finalizers})
		if errors.Is(err, store.ErrExists) {
			return simtest.ErrNotYet
		}
		return err
	}}
}

// Change is a step in which the user changes the value of an object, as soon as it is there. The name says what changes.
func Change[T any](name, kind, key string, change func(*T)) simtest.Step {
	return simtest.Step{Name: name, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := store.Patch(ctx, simtest.Open[T](user, kind), key, func(o *store.Object[T]) error {
			change(&o.Value)
			return nil
		})
		if errors.Is(err, store.ErrNotFound) {
			return simtest.ErrNotYet
		}
		return err
	}}
}

// Delete is a step in which the user deletes an object.
func Delete[T any](kind, key string) simtest.Step {
	return simtest.Step{Name: "delete " + kind + "/" + key, Do: func(ctx context.Context, user *simtest.User) error {
		_, err := simtest.Open[T](user, kind).Delete(ctx, key)
		return err
	}}
}
