package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// What a collector does depends on the child, on its owner, and on what happens while the owner is asked for.
func TestCollect(t *testing.T) {
	type child = store.Object[Replica]
	for _, c := range []struct {
		name    string
		before  func(f *fixture) child
		during  func(f *fixture, o child) // while it is asked whether the owner is alive
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
				o := f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"}, "disk")
				require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), "web-1")))
				o, err := f.replicas.Get(f.t.Context(), o.Key)
				require.NoError(f.t, err)
				return o
			},
			stays: true,
		},
		{
			name:   "a child that changes in the meantime is a conflict",
			before: func(f *fixture) child { return f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"}) },
			during: func(f *fixture, o child) {
				o.Owners = nil // somebody sets it free
				_, err := f.replicas.Update(f.t.Context(), o)
				require.NoError(f.t, err)
			},
			asked: true, err: store.ErrConflict,
		},
		{
			name:   "a child that is created again in the meantime is a conflict",
			before: func(f *fixture) child { return f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"}) },
			during: func(f *fixture, o child) {
				require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), o.Key)))
				f.replica("web-1", nil)
			},
			asked: true, err: store.ErrConflict,
		},
		{
			name:   "a child that somebody else deletes in the meantime is no error",
			before: func(f *fixture) child { return f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"}) },
			during: func(f *fixture, o child) { require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), o.Key))) },
			asked:  true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			o := c.before(f)
			asked := false
			alive := owner.AliveIn(f.apps)
			collector := owner.NewCollector(f.replicas, func(ctx context.Context, ref store.OwnerRef) (bool, error) {
				asked = true
				want, _ := owner.ControllerOf(o)
				assert.Equal(t, want, ref)
				if c.during != nil {
					c.during(f, o)
				}
				return alive(ctx, ref)
			})
			deleted, err := collector.Collect(t.Context(), o.Key)
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

func TestACollectedChildWithFinalizersIsBeingDeleted(t *testing.T) {
	f := newFixture(t)
	f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"}, "disk")
	collector := owner.NewCollector(f.replicas, owner.AliveIn(f.apps))
	for _, want := range []bool{true, false} {
		deleted, err := collector.Collect(t.Context(), "web-1")
		require.NoError(t, err)
		assert.Equal(t, want, deleted, "it is asked for once")
		o, err := f.replicas.Get(t.Context(), "web-1")
		require.NoError(t, err)
		assert.False(t, o.Deleting.IsZero())
	}
}

func TestNothingIsDeletedWhenTheOwnerCannotBeAskedFor(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"})
	down := errors.New("the database is down")
	collector := owner.NewCollector(f.replicas, func(context.Context, store.OwnerRef) (bool, error) { return false, down })
	deleted, err := collector.Collect(t.Context(), "web-1")
	require.ErrorIs(t, err, down)
	assert.EqualError(t, err, `owner: collect replica "web-1": ask for its owner app "gone" (UID "u"): the database is down`)
	assert.False(t, deleted)
	assert.True(t, f.has(o))
}

func TestAnOwnerOfAnotherKindIsNotTakenForDead(t *testing.T) {
	f := newFixture(t)
	child := store.Object[Replica]{Key: "web-1"}
	require.NoError(t, owner.SetController(&child, job))
	o, err := f.replicas.Create(t.Context(), child)
	require.NoError(t, err)
	deleted, err := owner.NewCollector(f.replicas, owner.AliveIn(f.apps)).Collect(t.Context(), "web-1")
	require.ErrorContains(t, err, `owner: look for job "web" (UID "u4"): the owners looked at are of kind app`)
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

func TestReadsThatFailAreErrors(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"})
	for _, collector := range []*owner.Collector[Replica]{
		owner.NewCollector(f.replicas, owner.AliveIn(broken[App]{f.apps})),
		owner.NewCollector(broken[Replica]{f.replicas}, owner.AliveIn(f.apps)),
	} {
		deleted, err := collector.Collect(t.Context(), "web-1")
		require.ErrorIs(t, err, errBroken)
		assert.ErrorContains(t, err, `owner: collect replica "web-1": `)
		assert.False(t, deleted)
	}
	assert.True(t, f.has(o))
}

func TestACollectorThatDoesNotLeadAnyMoreIsFencedOff(t *testing.T) {
	f := newFixture(t)
	o := f.replica("web-1", &store.Object[App]{Key: "gone", UID: "u"})
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "x"}, store.IfTerm("lease", 3))
	require.NoError(t, err)
	collector := owner.NewCollector(f.replicas, owner.AliveIn(f.apps))
	_, err = collector.Collect(t.Context(), "web-1", store.IfTerm("lease", 2))
	require.ErrorIs(t, err, store.ErrFenced)
	assert.True(t, f.has(o))
	deleted, err := collector.Collect(t.Context(), "web-1", store.IfTerm("lease", 3))
	require.NoError(t, err)
	assert.True(t, deleted)
}

// Whatever happens to a few owners in whatever order, once every child was collected only those of living owners are left.
func TestAfterEveryShortHistoryOnlyChildrenOfLivingOwnersAreLeft(t *testing.T) {
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
		collector := owner.NewCollector(f.replicas, owner.AliveIn(f.apps))
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
			deleted, err := collector.Collect(t.Context(), o.Key)
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

func TestWhatIsNilIsRefusedAtTheCall(t *testing.T) {
	f := newFixture(t)
	for want, call := range map[string]func(){
		"owner: NewCollector called with a nil store": func() { owner.NewCollector[Replica](nil, owner.AliveIn(f.apps)) },
		"owner: NewCollector called with a nil alive": func() { owner.NewCollector(f.replicas, nil) },
		"owner: AliveIn called with a nil store":      func() { owner.AliveIn[App](nil) },
		"owner: NewCascade called with a nil store":   func() { owner.NewCascade[App](nil) },
		"owner: DependentsIn called with a nil store": func() { owner.DependentsIn[Replica](nil, nil) },
		"owner: ChildrenIn called with a nil store":   func() { owner.ChildrenIn[Replica](nil, store.OwnerRef{}) },
		"owner: ClaimantOf called with a nil store":   func() { owner.ClaimantOf[App](nil, store.Object[App]{}) },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}
