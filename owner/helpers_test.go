package owner_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
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
	db := store.NewMemory(store.MemoryConfig{})
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
		require.NoError(f.t, owner.SetController(&o, app.Ref()))
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

// children returns the children in s, whose cache is empty.
func (f *fixture) children(s store.Store[Replica]) *owner.Children[Replica] {
	return owner.NewChildren(s, must(informer.New(s, store.Key, informer.Config{})))
}

// stale returns the children in s, whose cache shows the given objects. No informer runs, so the test may write to the cache.
func (f *fixture) stale(s store.Store[Replica], shown ...store.Object[Replica]) *owner.Children[Replica] {
	children := f.children(s)
	children.Informer().Indexer().Replace(shown)
	return children
}

// cascade is a call of Cascade for an owner.
type cascade func(ctx context.Context, key string) (left int, err error)

func cascading(apps store.Store[App], children ...owner.Dependents) cascade {
	return func(ctx context.Context, key string) (int, error) { return owner.Cascade(ctx, apps, key, children...) }
}

// collecting returns a call of Collect for a child.
func collecting(children *owner.Children[Replica], owners ...owner.Owners) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, key string) (bool, error) { return children.Collect(ctx, key, owners...) }
}

// before returns owners that call do before each read.
func before(owners owner.Owners, do func(key string) error) owner.Owners {
	get := owners.Get
	owners.Get = func(ctx context.Context, key string) (string, bool, error) {
		if err := do(key); err != nil {
			return "", false, err
		}
		return get(ctx, key)
	}
	return owners
}

// uidsOf returns the UIDs of the owners of a child.
func uidsOf(child store.Object[Replica]) (uids []string) {
	for _, ref := range child.Owners {
		uids = append(uids, ref.UID)
	}
	return uids
}

// leading returns the context of the leader in a term.
func leading(t *testing.T, term uint64) context.Context {
	return store.WithFence(t.Context(), store.Fence{Lease: "lease", Term: term})
}
