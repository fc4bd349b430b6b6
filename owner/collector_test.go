package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// The result of a collector depends on the child, on its owner, and on concurrent changes while it reads the owner.
func TestCollect(t *testing.T) {
	type child = store.Object[Replica]
	for _, c := range []struct {
		name    string
		before  func(f *fixture) child
		during  func(f *fixture, o child) // while the owner is read
		asked   bool
		deleted bool
		err     error
		stays   bool
	}{
		{
			name:   "a child whose owner lives stays",
			before: func(f *fixture) child { app := f.app("web"); return f.replica("web-1", &app) },
			asked:  true, stays: true,
		},
		{
			name: "a child whose owner is gone is deleted",
			before: func(f *fixture) child {
				app := f.app("web")
				defer f.deleteApp("web")
				return f.replica("web-1", &app)
			},
			asked: true, deleted: true,
		},
		{
			name: "a child whose owner was created again is deleted",
			before: func(f *fixture) child {
				app := f.app("web")
				o := f.replica("web-1", &app)
				f.deleteApp("web")
				f.app("web")
				return o
			},
			asked: true, deleted: true,
		},
		{
			name: "a child of an owner that is being deleted stays",
			before: func(f *fixture) child {
				app, err := f.apps.Create(f.t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"dns"}})
				require.NoError(f.t, err)
				f.deleteApp("web")
				return f.replica("web-1", &app)
			},
			asked: true, stays: true,
		},
		{
			name:   "a child without an owner stays",
			before: func(f *fixture) child { return f.replica("web-1", nil) },
			stays:  true,
		},
		{
			name:   "a child that is not there is no error",
			before: func(*fixture) child { return child{Key: "web-1"} },
		},
		{
			name: "a child that is being deleted is left to its finalizers",
			before: func(f *fixture) child {
				o := f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"}, "disk")
				require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), "web-1")))
				o, err := f.replicas.Get(f.t.Context(), o.Key)
				require.NoError(f.t, err)
				return o
			},
			stays: true,
		},
		{
			name: "a child that changes in the meantime is a conflict",
			before: func(f *fixture) child {
				return f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
			},
			during: func(f *fixture, o child) {
				o.Owners = nil // another writer releases it
				_, err := f.replicas.Update(f.t.Context(), o)
				require.NoError(f.t, err)
			},
			asked: true, err: store.ErrConflict,
		},
		{
			name: "a child that is created again in the meantime is a conflict",
			before: func(f *fixture) child {
				return f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
			},
			during: func(f *fixture, o child) {
				require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), o.Key)))
				f.replica("web-1", nil)
			},
			asked: true, err: store.ErrConflict,
		},
		{
			name: "a child that somebody else deletes in the meantime is no error",
			before: func(f *fixture) child {
				return f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
			},
			during: func(f *fixture, o child) { require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), o.Key))) },
			asked:  true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			o := c.before(f)
			asked := false
			collector := collecting(f.children(f.replicas), before(owner.In(f.apps), func(key string) error {
				asked = true
				want, _ := owner.ControllerOf(o)
				assert.Equal(t, want.Key, key)
				if c.during != nil {
					c.during(f, o)
				}
				return nil
			}))
			deleted, err := collector(t.Context(), o.Key)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
			} else {
				require.NoError(t, err)
				assert.Equal(t, c.stays, f.has(o))
			}
			assert.Equal(t, c.deleted, deleted)
			assert.Equal(t, c.asked, asked)
		})
	}
}

func TestCollectedChildWithFinalizersIsBeingDeleted(t *testing.T) {
	f := newFixture(t)
	f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"}, "disk")
	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	for _, want := range []bool{true, false} {
		deleted, err := collector(t.Context(), "web-1")
		require.NoError(t, err)
		assert.Equal(t, want, deleted, "it is requested once")
		o, err := f.replicas.Get(t.Context(), "web-1")
		require.NoError(t, err)
		assert.False(t, o.Deleting.IsZero())
	}
}

func TestCollectDeletesNothingWhenOwnerReadFails(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
	down := errors.New("the database is down")
	collector := collecting(f.children(f.replicas), before(owner.In(f.apps), func(string) error { return down }))
	deleted, err := collector(t.Context(), "web-1")
	require.ErrorIs(t, err, down)
	assert.EqualError(t, err, `owner: collect replica "web-1": read its owner app "gone" (UID "u"): the database is down`)
	assert.False(t, deleted)
	assert.True(t, f.has(o))
}

func TestOwnerOfAnotherKindIsAssumedAlive(t *testing.T) {
	f := newFixture(t)
	child := store.Object[Replica]{Key: "web-1"}
	require.NoError(t, owner.SetController(&child, job))
	o, err := f.replicas.Create(t.Context(), child)
	require.NoError(t, err)
	deleted, err := collecting(f.children(f.replicas), owner.In(f.apps))(t.Context(), "web-1")
	require.ErrorContains(t, err, `read its owner job "web" (UID "u4"): there are no Owners of kind "job"`)
	assert.False(t, deleted)
	assert.True(t, f.has(o))
}

func TestOwnerWithoutUIDIsAssumedAlive(t *testing.T) {
	f := newFixture(t)
	ref := f.app("web").Ref()
	ref.UID = ""
	o, err := f.replicas.Create(t.Context(), store.Object[Replica]{Key: "web-1", Owners: []store.OwnerRef{{Ref: ref, Controller: true}}})
	require.NoError(t, err)
	deleted, err := f.children(f.replicas).Collect(t.Context(), "web-1", owner.In(f.apps))
	require.ErrorContains(t, err, `owner: collect replica "web-1": read its owner app "web" (UID ""): a reference needs kind, key and UID`)
	assert.False(t, deleted)
	assert.True(t, f.has(o))
}

// broken is a store that cannot be read.
type broken[T any] struct{ store.Store[T] }

var errBroken = errors.New("broken")

func (broken[T]) Get(context.Context, string) (store.Object[T], error) {
	return store.Object[T]{}, errBroken
}

func (broken[T]) Select(context.Context, store.Selector) (informer.List[store.Object[T]], error) {
	return informer.List[store.Object[T]]{}, errBroken
}

func TestFailedReadsAreErrors(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
	for _, collector := range []func(context.Context, string) (bool, error){
		collecting(f.children(f.replicas), owner.In(broken[App]{f.apps})),
		collecting(f.children(broken[Replica]{f.replicas}), owner.In(f.apps)),
	} {
		deleted, err := collector(t.Context(), "web-1")
		require.ErrorIs(t, err, errBroken)
		assert.ErrorContains(t, err, `owner: collect replica "web-1": `)
		assert.False(t, deleted)
	}
	assert.True(t, f.has(o))
}

func TestCollectorOfFormerLeaderIsFenced(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Kind: "app", Key: "gone", UID: "u"})
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "x"}, store.IfTerm("lease", 3))
	require.NoError(t, err)
	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	_, err = collector(leading(t, 2), "web-1")
	require.ErrorIs(t, err, store.ErrFenced)
	assert.True(t, f.has(o))
	deleted, err := collector(leading(t, 3), "web-1")
	require.NoError(t, err)
	assert.True(t, deleted)
}

// After any short history of a few owners, and one collection of every child, only children of live owners are left.
func TestOnlyChildrenOfLivingOwnersRemainAfterEveryShortHistory(t *testing.T) {
	const length = 5
	steps := []func(f *fixture, apps map[string]store.Object[App], n int){
		func(f *fixture, apps map[string]store.Object[App], _ int) {
			if o, err := f.apps.Create(context.Background(), store.Object[App]{Key: "a"}); err == nil {
				apps["a"] = o
			}
		},
		func(f *fixture, _ map[string]store.Object[App], _ int) {
			_, _ = f.apps.Delete(context.Background(), "a")
		},
		func(f *fixture, apps map[string]store.Object[App], n int) { // of the last life seen, dead or not
			if o, ok := apps["a"]; ok {
				f.replica(fmt.Sprint("a-", n), &o)
			}
		},
		func(f *fixture, _ map[string]store.Object[App], n int) { f.replica(fmt.Sprint("free-", n), nil) },
	}
	total := 1
	for range length {
		total *= len(steps)
	}
	for code := range total {
		f, apps := newFixture(t), map[string]store.Object[App]{}
		for n, rest := 0, code; n < length; n, rest = n+1, rest/len(steps) {
			steps[rest%len(steps)](f, apps, n)
		}
		collector := collecting(f.children(f.replicas), owner.In(f.apps))
		alive := ""
		if o, err := f.apps.Get(t.Context(), "a"); err == nil {
			alive = o.UID
		}
		before, err := f.replicas.List(t.Context())
		require.NoError(t, err)
		left := 0
		for _, o := range before.Items {
			ref, owned := owner.ControllerOf(o)
			dead := owned && ref.UID != alive
			deleted, err := collector(t.Context(), o.Key)
			require.NoError(t, err)
			require.Equal(t, dead, deleted, "%d: %s of %v", code, o.Key, ref)
			if !dead {
				left++
			}
		}
		after, err := f.replicas.List(t.Context())
		require.NoError(t, err)
		require.Len(t, after.Items, left, code)
	}
}

func TestNilArgumentsPanic(t *testing.T) {
	f := newFixture(t)
	for want, call := range map[string]func(){
		"owner: NewChildren called with a nil store":    func() { owner.NewChildren[Replica](nil, f.children(f.replicas).Informer()) },
		"owner: NewChildren called with a nil informer": func() { owner.NewChildren(f.replicas, nil) },
		"owner: In called with a nil store":             func() { owner.In[App](nil) },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}

// The cache of the owners may never show an owner that lives only while its watch is interrupted. So the child is collected again.
func TestCollectComesBackToChildWhoseOwnerIsNotCached(t *testing.T) {
	f := newFixture(t)
	seen, err := informer.New(f.apps, store.Key, informer.Config{}) // never runs
	require.NoError(t, err)
	web, shop := f.app("web"), f.app("shop")
	f.shared("a", web, shop)
	collector := collecting(f.children(f.replicas), owner.Watched(f.apps, seen))
	again := func(key string) {
		t.Helper()
		deleted, err := collector(t.Context(), "a")
		assert.False(t, deleted)
		assert.ErrorContains(t, err, `owner: collect replica "a": the cache does not show its owner app "`+key+`"`)
		d, ok := retry.Delay(err)
		assert.True(t, ok)
		assert.Equal(t, 10*time.Second, d)
	}
	again("web")
	f.deleteApp("web")
	again("shop")
	assert.Equal(t, []string{"shop"}, f.ownersOf("a"), "what is gone is removed all the same")
	earlier := shop
	earlier.UID = "of an earlier life"
	seen.Indexer().Upsert(earlier)
	again("shop")
	seen.Indexer().Upsert(shop)
	deleted, err := collector(t.Context(), "a")
	require.NoError(t, err)
	assert.False(t, deleted)
	f.deleteApp("shop")
	deleted, err = collector(t.Context(), "a")
	require.NoError(t, err)
	assert.True(t, deleted)
}
