package simtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Create returns a step in which the user creates an object. If there is one of that key, perhaps because its finalizers have not been removed yet,
// the user waits, as with [ErrNotYet].
func Create[T any](kind string, object store.Object[T]) Step {
	return Step{Name: "create " + objectName(kind, object.Key), Do: func(ctx context.Context, user *User) error {
		_, err := Open[T](user, kind).Create(ctx, object)
		return waits(err, store.ErrExists)
	}}
}

// Update returns a step in which the user changes the value of an object. If there is no object, the user waits, as with [ErrNotYet].
func Update[T any](kind, key string, change func(*T)) Step {
	return Step{Name: "update " + objectName(kind, key), Do: func(ctx context.Context, user *User) error {
		_, err := store.Patch(ctx, Open[T](user, kind), key, func(o *store.Object[T]) error {
			change(&o.Value)
			return nil
		})
		return waits(err, store.ErrNotFound)
	}}
}

// Delete returns a step in which the user deletes an object. If there is no object, the user waits, as with [ErrNotYet]. The step does not wait for
// the removal of finalizers.
func Delete[T any](kind, key string) Step {
	return Step{Name: "delete " + objectName(kind, key), Do: func(ctx context.Context, user *User) error {
		_, err := Open[T](user, kind).Delete(ctx, key)
		return waits(err, store.ErrNotFound)
	}}
}

// waits returns err, and also ErrNotYet if err is the one for which the user waits.
func waits(err, reason error) error {
	if errors.Is(err, reason) {
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	return err
}

// Named returns the step with a name that says what the user wants, such as "move to south".
func (s Step) Named(name string) Step {
	s.Name = name
	return s
}

// List returns the objects of a kind, sorted by their keys, for Goal and Always. Like [Open], it panics if the values of the kind are not of
// type T.
func List[T any](v *View, kind string) []store.Object[T] {
	list, err := Open[T](v, kind).List(context.Background())
	if err != nil { // no fault hits a view
		panic(fmt.Errorf("simtest: list %s: %w", kind, err))
	}
	return list.Items
}

// Mirror returns the store of a kind, and an informer of it that logs nothing, for systems that a test writes for itself.
func Mirror[T any](env *Env, kind string) (store.Store[T], *store.Informer[T]) {
	s := Open[T](env, kind)
	in, err := informer.New(s, store.Key, informer.Config{Name: kind, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(fmt.Errorf("simtest: %w", err))
	}
	return s, in
}
