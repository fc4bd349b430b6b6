package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store"
)

// App is what most tests store.
type App struct {
	Replicas int
	Tags     []string
}

type object = store.Object[App]

// numbered returns UIDs u1, u2, ...
func numbered() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprint("u", n.Add(1)) }
}

func newApps(t testing.TB, cfg store.MemoryConfig) (*store.Memory, store.Store[App]) {
	t.Helper()
	db := store.NewMemory(cfg)
	return db, open[App](t, db, "app")
}

func open[T any](t testing.TB, db *store.Memory, kind string) store.Store[T] {
	t.Helper()
	s, err := store.Open(db, kind, store.Config[T]{})
	require.NoError(t, err)
	return s
}

func create(t testing.TB, s store.Store[App], key string) object {
	t.Helper()
	o, err := s.Create(context.Background(), object{Key: key})
	require.NoError(t, err)
	return o
}

func scale(t testing.TB, s store.Store[App], key string, replicas int) object {
	t.Helper()
	o, err := s.Get(context.Background(), key)
	require.NoError(t, err)
	o.Value.Replicas = replicas
	o, err = s.Update(context.Background(), o)
	require.NoError(t, err)
	return o
}

// errOf returns the error of a call that returns an object too.
func errOf[T any](_ store.Object[T], err error) error { return err }
