package main

import (
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
