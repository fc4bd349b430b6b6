package owner_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// shared creates a child of the given owners. The first one controls it.
func (f *fixture) shared(key string, owners ...store.Object[App]) store.Object[Replica] {
	f.t.Helper()
	o := store.Object[Replica]{Key: key}
	for i, app := range owners {
		o.Owners = append(o.Owners, store.OwnerRef{Ref: app.Ref(), Controller: i == 0})
	}
	o, err := f.replicas.Create(context.Background(), o)
	require.NoError(f.t, err)
	return o
}

// ownersOf returns the keys of the owners of a child, the controlling one with a star.
func (f *fixture) ownersOf(key string) (keys []string) {
	f.t.Helper()
	for _, ref := range f.now(key).Owners {
		if ref.Controller {
			ref.Key += "*"
		}
		keys = append(keys, ref.Key)
	}
	return keys
}

func TestChildIsKeptWhileAnyOwnerLives(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	f.shared("a", web, shop)
	calls := interceptor.New(f.replicas)
	collector := collecting(f.children(calls), owner.In(f.apps))
	collect := func() bool {
		t.Helper()
		deleted, err := collector(t.Context(), "a")
		require.NoError(t, err)
		return deleted
	}
	before := f.now("a")
	require.False(t, collect())
	require.Equal(t, before, f.now("a"))
	require.Empty(t, calls.Writes(), "both are alive")

	f.deleteApp("web")
	require.False(t, collect())
	require.Equal(t, []string{"shop"}, f.ownersOf("a"), "the missing owner is removed, so that another may control the child")

	f.deleteApp("shop")
	require.True(t, collect())
	require.Empty(t, f.keys())
}

func TestChildWithoutControllerIsCollectedAfterItsOwners(t *testing.T) {
	f := newFixture(t)
	web := f.app("web")
	o, err := f.replicas.Create(t.Context(), store.Object[Replica]{Key: "a", Owners: []store.OwnerRef{{Ref: web.Ref()}}})
	require.NoError(t, err)
	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	for _, gone := range []bool{false, true} {
		if gone {
			f.deleteApp("web")
		}
		deleted, err := collector(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, gone, deleted)
		require.Equal(t, !gone, f.has(o))
	}
}

func TestChildIsUntouchedWhenAnOwnerReadFails(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	o := f.shared("a", web, shop)
	f.deleteApp("web")
	collector := collecting(f.children(f.replicas), before(owner.In(f.apps), func(key string) error {
		if key == "shop" {
			return errBroken
		}
		return nil
	}))
	deleted, err := collector(t.Context(), "a")
	require.ErrorIs(t, err, errBroken)
	assert.False(t, deleted)
	assert.True(t, f.has(o))
}

func TestCollectorKeepsOwnerOfConcurrentlyChangedChild(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	f.shared("a", web, shop)
	f.deleteApp("web")
	var changed store.Object[Replica]
	collector := collecting(f.children(f.replicas), before(owner.In(f.apps), func(string) error {
		if changed.Key == "" {
			changed = f.now("a")
			changed.Value.Machine = "m"
			var err error
			changed, err = f.replicas.Update(t.Context(), changed)
			require.NoError(t, err)
		}
		return nil
	}))
	_, err := collector(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrConflict)
	assert.True(t, f.has(changed))
}

func TestForegroundReleasesChildWithAnotherOwner(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	f.shared("controlled", web, shop)
	f.shared("not-controlled", shop, web)
	f.shared("only", web)
	_, err := f.replicas.Create(t.Context(), store.Object[Replica]{Key: "plain", Owners: []store.OwnerRef{{Ref: web.Ref()}}})
	require.NoError(t, err)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	cascade := cascading(f.apps, f.children(f.replicas))
	require.Zero(t, left(t, cascade))
	require.False(t, f.hasApp("web"))
	require.Equal(t, "controlled* not-controlled plain*", f.keys())
	require.Equal(t, []string{"shop"}, f.ownersOf("controlled"))
	require.Equal(t, []string{"shop*", "web"}, f.ownersOf("not-controlled"), "an owner that is not the controller is not waited for")

	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	for _, key := range []string{"controlled", "not-controlled", "plain"} {
		deleted, err := collector(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, key == "plain", deleted, key)
	}
	require.Equal(t, []string{"shop*"}, f.ownersOf("not-controlled"))
}

func TestOrphanReleasesChildNotControlledByOwner(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	f.shared("shared", shop, web)
	_, err := f.replicas.Create(t.Context(), store.Object[Replica]{Key: "plain", Owners: []store.OwnerRef{{Ref: web.Ref()}}})
	require.NoError(t, err)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Orphan))
	require.Zero(t, left(t, cascading(f.apps, f.children(f.replicas))))
	require.False(t, f.hasApp("web"))
	require.Equal(t, []string{"shop*"}, f.ownersOf("shared"))
	require.Empty(t, f.ownersOf("plain"))
	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	for _, key := range []string{"shared", "plain"} {
		deleted, err := collector(t.Context(), key)
		require.NoError(t, err)
		require.False(t, deleted, key)
	}
}

func TestReleaseIgnoresRecreatedOrDeletedChild(t *testing.T) {
	for name, change := range map[string]func(f *fixture, child store.Object[Replica]) error{
		"recreated": func(f *fixture, child store.Object[Replica]) error {
			require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), child.Key)))
			f.replica(child.Key, nil)
			return nil
		},
		"gone": func(f *fixture, child store.Object[Replica]) error {
			return errOf(f.replicas.Delete(f.t.Context(), child.Key))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			web := f.app("web")
			child := f.child("a", "x", &web)
			require.NoError(t, change(f, child))
			keys, err := f.claim(owner.In(f.apps), web.Ref(), child)
			require.NoError(t, err)
			assert.Empty(t, keys)
		})
	}
}

func TestReleaseOfChangedChildIsAConflict(t *testing.T) {
	f := newFixture(t)
	web := f.app("web")
	child := f.child("a", "x", &web)
	changed := child
	changed.Value.Machine = "y"
	require.NoError(t, errOf(f.replicas.Update(t.Context(), changed)))
	_, err := f.claim(owner.In(f.apps), web.Ref(), child)
	require.ErrorIs(t, err, store.ErrConflict)

	_, err = f.stale(broken[Replica]{f.replicas}, child).Claim(t.Context(), web.Ref(), owner.In(f.apps),
		func(store.Object[Replica]) bool { return false })
	require.ErrorIs(t, err, store.ErrConflict, "whether it was recreated is unknown")
}

// While an owner is being deleted with Orphan, a recreated child may be owned by it again.
func TestOrphanRereadsRecreatedChild(t *testing.T) {
	f := newFixture(t)
	web := f.app("web")
	f.replica("a", &web)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Orphan))
	anew := &crasher{at: -1, others: func(now int) {
		if now == 2 { // after the children were listed
			require.NoError(t, errOf(f.replicas.Delete(t.Context(), "a")))
			f.replica("a", &web)
		}
	}}
	cascade := cascading(f.apps, f.children(fragile[Replica]{f.replicas, anew}))
	_, err := cascade(t.Context(), "web")
	require.ErrorIs(t, err, store.ErrConflict)
	require.True(t, f.hasApp("web"))
	require.Zero(t, left(t, cascade))
	require.Equal(t, "a*", f.keys())
}

// The oracle is the documentation: a child that had owners exists as long as one of them does. It refers to exactly
// its live owners.
func TestChildrenFollowLastOwnerAfterEveryShortHistory(t *testing.T) {
	const length, steps = 5, 6
	total := 1
	for range length {
		total *= steps
	}
	collected, thinned := 0, 0
	for code := range total {
		f := newFixture(t)
		last, children := map[string]store.Object[App]{}, map[string][]string{} // by key; the UIDs of the owners
		for n, rest := 0, code; n < length; n, rest = n+1, rest/steps {
			toggle := func(name string) {
				if o, err := f.apps.Create(t.Context(), store.Object[App]{Key: name}); err == nil {
					last[name] = o
				} else {
					f.deleteApp(name)
				}
			}
			child := func(names ...string) { // of the last lives of its owners, dead or not
				key, owners := fmt.Sprint("child-", n), []store.Object[App]{}
				for _, name := range names {
					if o, ok := last[name]; ok {
						owners, children[key] = append(owners, o), append(children[key], o.UID)
					}
				}
				f.shared(key, owners...)
			}
			switch rest % steps {
			case 0:
				toggle("a")
			case 1:
				toggle("b")
			case 2:
				child("a")
			case 3:
				child("b")
			case 4:
				child("a", "b")
			case 5:
				child("b", "a")
			}
		}
		living := map[string]bool{}
		for _, name := range []string{"a", "b"} {
			if o, err := f.apps.Get(t.Context(), name); err == nil {
				living[o.UID] = true
			}
		}
		collector := collecting(f.children(f.replicas), owner.In(f.apps))
		for key, uids := range children {
			want := slices.DeleteFunc(slices.Clone(uids), func(uid string) bool { return !living[uid] })
			_, err := collector(t.Context(), key)
			require.NoError(t, err)
			o, err := f.replicas.Get(t.Context(), key)
			if len(want) == 0 {
				require.ErrorIs(t, err, store.ErrNotFound, "%d: %s has no owner left", code, key)
				collected++
				continue
			}
			require.NoError(t, err, "%d: %s", code, key)
			require.Equal(t, want, uidsOf(o), "%d: %s", code, key)
			if len(want) < len(uids) {
				thinned++
			}
		}
	}
	require.Greater(t, collected, 100)
	require.Greater(t, thinned, 100)
}

func TestOfAndKeysAreSorted(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	b, c, a := f.replica("b", &web), f.shared("c", shop, web), f.replica("a", &web)
	children := f.stale(f.replicas, b, c, a)
	require.Equal(t, []store.Object[Replica]{a, b}, children.Of(web.Ref()))
	require.Equal(t, []string{"a", "b", "c"}, children.Keys(web.Ref()))
	require.Equal(t, []store.Object[Replica]{c}, children.Of(shop.Ref()))
}
