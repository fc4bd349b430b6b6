package owner_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

type App struct{ Replicas int }

type Replica struct{ Machine string }

// fixture is a database with apps and their replicas.
type fixture struct {
	t        *testing.T
	db       *store.Memory
	apps     store.Store[App]
	replicas store.Store[Replica]
	given    bool // to another owner
}

func newFixture(t *testing.T) *fixture {
	var n atomic.Int64
	uid := func() string { return fmt.Sprint("u", n.Add(1)) }
	db := must(store.NewMemory(store.MemoryConfig{}))
	apps, err := store.Open[App](db, "app", store.Config[App]{NewUID: uid})
	require.NoError(t, err)
	replicas, err := store.Open[Replica](db, "replica", store.Config[Replica]{NewUID: uid})
	require.NoError(t, err)
	return &fixture{t: t, db: db, apps: apps, replicas: replicas}
}

func (f *fixture) app(key string) store.Object[App] {
	f.t.Helper()
	o, err := f.apps.Create(context.Background(), store.Object[App]{Key: key})
	require.NoError(f.t, err)
	return o
}

// replica creates a child that is controlled by app, if not nil.
func (f *fixture) replica(key string, app *store.Object[App], finalizers ...string) store.Object[Replica] {
	f.t.Helper()
	o := store.Object[Replica]{Key: key, Finalizers: finalizers}
	if app != nil {
		require.NoError(f.t, owner.SetController(&o, app.Ref("app")))
	}
	o, err := f.replicas.Create(context.Background(), o)
	require.NoError(f.t, err)
	return o
}

func (f *fixture) deleteApp(key string) {
	f.t.Helper()
	require.NoError(f.t, errOf(f.apps.Delete(context.Background(), key)))
}

// has says whether the child is there, as it was.
func (f *fixture) has(child store.Object[Replica]) bool {
	f.t.Helper()
	got, err := f.replicas.Get(context.Background(), child.Key)
	if err != nil {
		require.ErrorIs(f.t, err, store.ErrNotFound)
		return false
	}
	require.Equal(f.t, child, got)
	return true
}

// errOf returns the error of a call that returns an object too.
func errOf[T any](_ store.Object[T], err error) error { return err }
