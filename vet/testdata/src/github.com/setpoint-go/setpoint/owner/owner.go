// Package owner has the part of the real package that the tests of the analyzers use.
package owner

import (
	"context"

	"github.com/setpoint-go/setpoint/store"
)

type Finalizer[T any] struct {
	Name    string
	Apply   func(ctx context.Context, obj store.Object[T]) error
	Cleanup func(ctx context.Context, obj store.Object[T]) error
}

func (f Finalizer[T]) Reconcile(ctx context.Context, s store.Store[T], key string) (obj store.Object[T], live bool, err error) {
	return
}
