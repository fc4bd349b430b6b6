// Package store has the part of the real package that the tests of the analyzers use.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/informer"
)

var ErrNotFound = errors.New("not found")

type Object[T any] struct {
	Key        string
	Value      T
	Labels     map[string]string
	Finalizers []string
	Created    time.Time
	Owner      Owner
}

type Owner struct{ Labels map[string]string }

type Informer[T any] = informer.Informer[string, Object[T]]

type Store[T any] interface {
	Get(ctx context.Context, key string) (Object[T], error)
	Create(ctx context.Context, obj Object[T]) (Object[T], error)
	Update(ctx context.Context, obj Object[T]) (Object[T], error)
	UpdateStatus(ctx context.Context, obj Object[T]) (Object[T], error)
	Delete(ctx context.Context, key string) (Object[T], error)
}

func Patch[T any](ctx context.Context, s Store[T], key string, f func(*Object[T]) error) (Object[T], error) {
	return Object[T]{}, nil
}
