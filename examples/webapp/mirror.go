package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// mirror is one kind of objects: the store to write to, and the informer whose cache is read.
type mirror[T any] struct {
	store.Store[T]
	cache *informer.Informer[string, store.Object[T]]
}

func newMirror[T any](db *store.Memory, kind string, log *slog.Logger) (mirror[T], error) {
	s, err := store.Open[T](db, kind)
	if err != nil {
		return mirror[T]{}, err
	}
	return mirror[T]{s, informer.New(s, store.Key[T], informer.Config{Name: kind, Logger: log})}, nil
}

// report writes back the status of o, which part finds in its value, unless it is what the cache shows already. It returns
// what the status was in the store, which the cache may lag behind: equal to status if somebody has written that before, or
// if the object was deleted meanwhile.
func report[T any, S comparable](ctx context.Context, m mirror[T], o store.Object[T], part func(*T) *S, status S) (was S, err error) {
	if *part(&o.Value) == status {
		return status, nil
	}
	_, err = store.PatchStatus(ctx, m, o.Key, func(o *store.Object[T]) error {
		was, *part(&o.Value) = *part(&o.Value), status
		return nil
	}, store.IfUID(o.UID))
	if errors.Is(err, store.ErrNotFound) {
		return status, nil
	}
	return was, err
}
