package owner_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// claim is one call of Claim, by a cache that shows what it is given: every child whose Machine is "m" matches.
func (f *fixture) claim(in owner.Owners, ref store.Ref, shown ...store.Object[Replica]) ([]string, error) {
	mine, err := f.stale(f.replicas, shown...).Claim(f.t.Context(), ref, in,
		func(o store.Object[Replica]) bool { return o.Value.Machine == "m" })
	var keys []string
	for _, o := range mine {
		has, _ := owner.ControllerOf(o)
		assert.Equal(f.t, ref.UID, has.UID)
		assert.Equal(f.t, f.now(o.Key), o, "as it is now, so that an update is no conflict")
		keys = append(keys, o.Key)
	}
	return keys, err
}

// child creates a child on a machine, controlled by app, if not nil.
func (f *fixture) child(key, machine string, app *store.Object[App], finalizers ...string) store.Object[Replica] {
	o := f.replica(key, app, finalizers...)
	o.Value.Machine = machine
	o, err := f.replicas.Update(f.t.Context(), o)
	require.NoError(f.t, err)
	return o
}

func (f *fixture) now(key string) store.Object[Replica] {
	o, err := f.replicas.Get(f.t.Context(), key)
	require.NoError(f.t, err)
	return o
}

func TestClaimAdoptsReleasesAndLeavesAlone(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	dying := f.child("dying", "m", nil, "disk")
	require.NoError(t, errOf(f.replicas.Delete(t.Context(), "dying")))
	candidates := []store.Object[Replica]{
		f.child("mine", "m", &web), f.child("mine-no-more", "x", &web), f.child("orphan", "m", nil), f.child("orphan-2", "m", nil),
		f.child("orphan-x", "x", nil), f.child("other", "m", &shop), f.child("other-x", "x", &shop), f.now(dying.Key),
		f.child("adopted", "m", nil),
	}
	shared, err := f.replicas.Create(t.Context(), store.Object[Replica]{
		Key: "shared", Value: Replica{Machine: "m"}, Owners: []store.OwnerRef{{Ref: shop.Ref(), Controller: true}, {Ref: web.Ref()}},
	})
	require.NoError(t, err)
	nameless, err := f.replicas.Create(t.Context(), store.Object[Replica]{
		Key: "no-uid", Value: Replica{Machine: "m"}, Owners: []store.OwnerRef{{Ref: store.Ref{Kind: "app", Key: "web"}, Controller: true}},
	})
	require.NoError(t, err)
	candidates = append(candidates, shared, nameless)
	asked := 0
	in := before(owner.In(f.apps), func(string) error { asked++; return nil })
	keys, err := f.claim(in, web.Ref(), candidates...)
	require.NoError(t, err)
	assert.Equal(t, []string{"adopted", "mine", "orphan", "orphan-2"}, keys)
	assert.Equal(t, 1, asked)
	assert.Empty(t, f.now("mine-no-more").Owners)
	for _, i := range []int{0, 4, 5, 6, 7, 9, 10} {
		assert.Equal(t, candidates[i], f.now(candidates[i].Key), "untouched")
	}
}

func TestGoneDyingOrUnknownOwnerAdoptsAndReleasesNothing(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		change func(f *fixture, in *owner.Owners)
		err    error
	}{
		"gone":          {func(f *fixture, _ *owner.Owners) { require.NoError(f.t, removeApp(f)) }, nil},
		"created again": {func(f *fixture, _ *owner.Owners) { require.NoError(f.t, removeApp(f)); f.app("web") }, nil},
		"being deleted": {func(f *fixture, _ *owner.Owners) { f.deleteApp("web") }, nil},
		"unreadable": {func(_ *fixture, in *owner.Owners) {
			*in = before(*in, func(string) error { return down })
		}, down},
		"of no known kind": {func(_ *fixture, in *owner.Owners) { in.Kind = "job" }, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			web, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"dns"}})
			require.NoError(t, err)
			kept, orphan := f.child("kept", "m", &web), f.child("orphan", "m", nil)
			in, surplus := owner.In(f.apps), f.child("surplus", "x", &web)
			c.change(f, &in)
			keys, err := f.claim(in, web.Ref(), kept, orphan, surplus)
			if c.err == errAny {
				require.ErrorContains(t, err, `there are no Owners of kind "app"`)
			} else if c.err != nil {
				require.ErrorIs(t, err, c.err)
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"kept"}, keys)
			assert.Equal(t, orphan, f.now("orphan"))
			assert.Equal(t, surplus, f.now("surplus"), "it releases nothing either")
		})
	}
}

var errAny = errors.New("any")

// removeApp deletes web in spite of its finalizer.
func removeApp(f *fixture) error {
	f.deleteApp("web")
	_, err := store.Patch(f.t.Context(), f.apps, "web", func(o *store.Object[App]) error { o.Finalizers = nil; return nil })
	return err
}

func TestChildErrorsAreJoinedAndBlockNoOthers(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	stolen, stale, gone, fine := f.child("a", "m", nil), f.child("b", "x", &web), f.child("c", "m", nil), f.child("d", "m", nil)
	took, err := f.claim(owner.In(f.apps), shop.Ref(), stolen)
	require.NoError(t, err)
	require.Len(t, took, 1)
	changed := stale
	changed.Value.Machine = "m"
	_, err = f.replicas.Update(t.Context(), changed)
	require.NoError(t, err)
	require.NoError(t, errOf(f.replicas.Delete(t.Context(), "c")))
	keys, err := f.claim(owner.In(f.apps), web.Ref(), stolen, stale, gone, fine)
	require.ErrorIs(t, err, store.ErrConflict)
	assert.ErrorContains(t, err, `owner: adopt replica "a": store: update replica "a"`)
	assert.ErrorContains(t, err, `owner: release replica "b": store: update replica "b"`)
	assert.NotErrorIs(t, err, store.ErrNotFound)
	assert.Equal(t, []string{"d"}, keys)
	has, _ := owner.ControllerOf(f.now("a"))
	assert.Equal(t, shop.UID, has.UID)
}
