package owner_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/interceptor"
)

// keys returns the keys of all replicas, those that are being deleted with a minus, those without a controller with a star.
func (f *fixture) keys() string {
	list, err := f.replicas.List(context.Background())
	require.NoError(f.t, err)
	var keys []string
	for _, o := range list.Items {
		if !o.Deleting.IsZero() {
			o.Key = "-" + o.Key
		}
		if _, ok := owner.ControllerOf(o); !ok {
			o.Key += "*"
		}
		keys = append(keys, o.Key)
	}
	return strings.Join(keys, " ")
}

func (f *fixture) hasApp(key string) bool {
	_, err := f.apps.Get(context.Background(), key)
	return !errors.Is(err, store.ErrNotFound)
}

// finish removes the finalizers of a replica, as the code that added them eventually does.
func (f *fixture) finish(key string) {
	_, err := store.Patch(f.t.Context(), f.replicas, key, func(o *store.Object[Replica]) error {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(name string) bool { return name == "disk" })
		return nil
	})
	require.NoError(f.t, err)
}

// family is app web with children of every sort, and what is none of its children: "again-*" are of its earlier life.
func family(t *testing.T) (*fixture, cascade) {
	f := newFixture(t)
	former := f.app("web")
	f.replica("former", &former)
	f.deleteApp("web")
	web, shop := f.app("web"), f.app("shop")
	f.replica("a", &web)
	f.replica("b", &web, "disk")
	f.replica("c", &web, "disk")
	require.NoError(t, errOf(f.replicas.Delete(t.Context(), "c")))
	f.replica("orphan", nil)
	other := store.Object[Replica]{Key: "other", Owners: []store.OwnerRef{{Ref: web.Ref()}}} // web does not control it
	require.NoError(t, owner.SetController(&other, shop.Ref()))
	_, err := f.replicas.Create(t.Context(), other)
	require.NoError(t, err)
	return f, cascading(f.apps, f.children(f.replicas))
}

// left is the number of children that a call of the cascade for web must wait for.
func left(t *testing.T, c cascade) int {
	n, err := c(t.Context(), "web")
	require.NoError(t, err)
	return n
}

func TestForegroundDeletesChildrenBeforeOwner(t *testing.T) {
	f, cascade := family(t)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	require.True(t, f.hasApp("web"))
	require.Equal(t, 2, left(t, cascade))
	require.Equal(t, "-b -c former orphan* other", f.keys())
	require.Equal(t, 2, left(t, cascade))
	f.finish("b")
	require.Equal(t, 1, left(t, cascade))
	require.True(t, f.hasApp("web"))
	f.finish("c")
	require.Zero(t, left(t, cascade))
	require.False(t, f.hasApp("web"))
	require.Equal(t, "former orphan* other", f.keys())
	require.Zero(t, left(t, cascade), "nothing more to do")
}

func TestOrphanKeepsChildrenAndReleasesOwner(t *testing.T) {
	f, cascade := family(t)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Orphan))
	require.True(t, f.hasApp("web"))
	require.Zero(t, left(t, cascade))
	require.False(t, f.hasApp("web"))
	require.Equal(t, "a* b* -c* former orphan* other", f.keys())
	require.Equal(t, []string{"shop*"}, f.ownersOf("other"), "children that web owns without control are released, too")

	collector := collecting(f.children(f.replicas), owner.In(f.apps))
	for _, o := range []string{"a", "b", "c", "orphan", "other"} {
		deleted, err := collector(t.Context(), o)
		require.NoError(t, err)
		require.False(t, deleted, o)
	}
}

func TestBackgroundReleasesOwnerImmediately(t *testing.T) {
	f, cascade := family(t)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Background))
	require.False(t, f.hasApp("web"))
	require.Zero(t, left(t, cascade))
	require.Equal(t, "a b -c former orphan* other", f.keys(), "these are for a Collector")
}

func TestLastPolicyBeforeDeletionWins(t *testing.T) {
	for _, c := range []struct {
		before []string
		choose owner.Policy
		after  []string
	}{
		{nil, owner.Foreground, []string{"setpoint/foreground"}},
		{[]string{"dns"}, owner.Orphan, []string{"dns", "setpoint/orphan"}},
		{[]string{"setpoint/foreground", "dns"}, owner.Orphan, []string{"dns", "setpoint/orphan"}},
		{[]string{"setpoint/foreground", "dns"}, owner.Foreground, []string{"setpoint/foreground", "dns"}},
		{[]string{"setpoint/orphan", "dns", "setpoint/foreground"}, owner.Background, []string{"dns"}},
	} {
		f := newFixture(t)
		_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: c.before})
		require.NoError(t, err)
		require.NoError(t, owner.Delete(t.Context(), f.apps, "web", c.choose))
		o, err := f.apps.Get(t.Context(), "web")
		require.NoError(t, err)
		assert.Equal(t, c.after, o.Finalizers)
		assert.NotZero(t, o.Deleting)
		for _, late := range []owner.Policy{owner.Background, owner.Foreground, owner.Orphan} {
			require.NoError(t, owner.Delete(t.Context(), f.apps, "web", late))
			again, err := f.apps.Get(t.Context(), "web")
			require.NoError(t, err)
			assert.Equal(t, o, again, "it is too late")
		}
	}
}

func TestPolicyFinalizerLeavesOthersUntouched(t *testing.T) {
	for _, c := range []struct {
		finalizers []string
		children   string
	}{
		{[]string{"dns", string(owner.Foreground)}, ""},
		{[]string{string(owner.Orphan), "dns"}, "a*"},
		{[]string{string(owner.Foreground), "dns", string(owner.Orphan)}, "a*"}, // the one that can be put right later
	} {
		f := newFixture(t)
		web, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: c.finalizers})
		require.NoError(t, err)
		f.replica("a", &web)
		cascade := cascading(f.apps, f.children(f.replicas))
		require.Zero(t, left(t, cascade))
		require.Equal(t, "a", f.keys(), "a live owner keeps its children")
		f.deleteApp("web")
		require.Zero(t, left(t, cascade))
		require.Equal(t, c.children, f.keys())
		o, err := f.apps.Get(t.Context(), "web")
		require.NoError(t, err)
		require.Equal(t, []string{"dns"}, o.Finalizers)
		require.Zero(t, left(t, cascade))
	}
}

func TestCascadeWaitsForChildrenOfSeveralKinds(t *testing.T) {
	f := newFixture(t)
	volumes, err := store.Open[Replica](f.db, "volume", store.Config[Replica]{})
	require.NoError(t, err)
	web := f.app("web")
	f.replica("a", &web)
	volume := store.Object[Replica]{Key: "web-v", Labels: map[string]string{"app": "web"}, Finalizers: []string{"disk"}}
	require.NoError(t, owner.SetController(&volume, web.Ref()))
	_, err = volumes.Create(t.Context(), volume)
	require.NoError(t, err)
	asked := ""
	volumeChildren := f.children(volumes)
	volumeChildren.Among = func(of store.Ref) store.Selector {
		asked = of.Kind + " " + of.Key
		return store.Selector{Labels: []store.Requirement{{Label: "app", Values: []string{of.Key}}}}
	}
	cascade := cascading(f.apps, volumeChildren, f.children(f.replicas))
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	require.Equal(t, 1, left(t, cascade))
	require.Equal(t, "app web", asked)
	require.Empty(t, f.keys())
	_, err = store.Patch(t.Context(), volumes, "web-v", func(o *store.Object[Replica]) error { o.Finalizers = nil; return nil })
	require.NoError(t, err)
	require.Zero(t, left(t, cascade))
	require.False(t, f.hasApp("web"))
}

func TestCascadeJoinsErrorsAndKeepsOwner(t *testing.T) {
	f, _ := family(t)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	cascade := cascading(f.apps, f.children(broken[Replica]{f.replicas}), f.children(f.replicas))
	n, err := cascade(t.Context(), "web")
	require.ErrorIs(t, err, errBroken)
	require.EqualError(t, err, `owner: delete app "web" and its children: broken`)
	require.Equal(t, 2, n)
	require.Equal(t, "-b -c former orphan* other", f.keys(), "the other kind is checked")
	f.finish("b")
	f.finish("c")
	_, err = cascade(t.Context(), "web")
	require.ErrorIs(t, err, errBroken)
	require.True(t, f.hasApp("web"))

	cascade = cascading(broken[App]{f.apps})
	_, err = cascade(t.Context(), "web")
	require.ErrorIs(t, err, errBroken)
	require.EqualError(t, owner.Delete(t.Context(), f.apps, "none", owner.Orphan), `owner: delete app "none": store: get app "none": object not found`)
	require.PanicsWithValue(t, `owner: there is no policy "x"`, func() { _ = owner.Delete(t.Context(), f.apps, "web", "x") })
}

func TestCascadeOfFormerLeaderIsFenced(t *testing.T) {
	f, cascade := family(t)
	_, err := f.apps.Create(t.Context(), store.Object[App]{Key: "x"}, store.IfTerm("lease", 3))
	require.NoError(t, err)
	require.ErrorIs(t, owner.Delete(leading(t, 2), f.apps, "web", owner.Orphan), store.ErrFenced)
	require.NoError(t, owner.Delete(leading(t, 3), f.apps, "web", owner.Orphan))
	before := f.keys()
	_, err = cascade(leading(t, 2), "web")
	require.ErrorIs(t, err, store.ErrFenced)
	require.Equal(t, before, f.keys())
	_, err = cascade(leading(t, 3), "web")
	require.NoError(t, err)
	require.False(t, f.hasApp("web"))
}

// The process may stop at any step, and another writer may change a child at any time. A repeated deletion still
// completes and keeps its policy.
func TestCascadeCompletesAfterCrashAtAnyStep(t *testing.T) {
	others := map[string]func(f *fixture){
		"nobody": func(*fixture) {},
		"somebody changes a child": func(f *fixture) {
			_, _ = store.Patch(context.Background(), f.replicas, "a", func(o *store.Object[Replica]) error { o.Value.Machine = "m"; return nil })
		},
		"a child goes by itself": func(f *fixture) { _, _ = f.replicas.Delete(context.Background(), "a") },
		"a child is given to another": func(f *fixture) {
			_, err := store.Patch(context.Background(), f.replicas, "a", func(o *store.Object[Replica]) error {
				o.Owners = []store.OwnerRef{controlling(shop)}
				return nil
			})
			f.given = err == nil
		},
		"a child gets another owner": func(f *fixture) {
			_, err := store.Patch(context.Background(), f.replicas, "a", func(o *store.Object[Replica]) error {
				if !o.Deleting.IsZero() {
					return errCrash // too late
				}
				o.Owners = append(o.Owners, plain(shop))
				return nil
			})
			f.given = err == nil
		},
	}
	crashes := 0
	for _, how := range []owner.Policy{owner.Foreground, owner.Orphan} {
		for what, act := range others {
			for code := range 20 * 20 {
				f := newFixture(t)
				web := f.app("web")
				f.replica("a", &web)
				f.replica("b", &web)
				c := &crasher{at: code % 20, others: func(now int) {
					if now == code/20 {
						act(f)
					}
				}}
				apps, replicas := fragile[App]{f.apps, c}, fragile[Replica]{f.replicas, c}
				cascade := cascading(apps, f.children(replicas))
				for range 6 { // each time as after a restart
					_ = owner.Delete(t.Context(), apps, "web", how)
					_, _ = cascade(t.Context(), "web")
					for _, key := range []string{"a", "b"} {
						o, err := f.replicas.Get(t.Context(), key)
						ref, controlled := owner.ControllerOf(o)
						switch {
						case err != nil:
							require.True(t, how == owner.Foreground || key == "a" && what == "a child goes by itself", "%s, %s, %d: %s is deleted", how, what, code, key)
							require.False(t, key == "a" && f.given, "%s, %d: a foreign child is deleted", how, code)
						case controlled && ref.UID == web.UID:
							require.True(t, f.hasApp("web"), "%s, %s, %d: the owner is gone, %s is left", how, what, code, key)
						case controlled:
							require.Equal(t, "a child is given to another", what)
						}
					}
				}
				require.False(t, f.hasApp("web"), "%s, %s, %d", how, what, code)
				if c.now > c.at {
					crashes++
				}
			}
		}
	}
	require.Greater(t, crashes, 1000)
}

// Another writer completes a deletion and recreates the object, at any step of the work on the former incarnation.
func TestRecreatedObjectIsNotTouched(t *testing.T) {
	const dns = "dns"
	for _, c := range []struct {
		name     string
		from     int  // the moment from which the call is about the former life
		deleting bool // the former life is being deleted
		call     func(apps store.Store[App], f *fixture) error
	}{
		{"by Delete", 3, false, func(apps store.Store[App], _ *fixture) error {
			return owner.Delete(context.Background(), apps, "web", owner.Foreground)
		}},
		{"by a Cascade", 0, true, func(apps store.Store[App], f *fixture) error {
			_, err := cascading(apps, f.children(f.replicas))(context.Background(), "web")
			return err
		}},
		{"by a Finalizer", 0, true, func(apps store.Store[App], _ *fixture) error {
			nothing := func(context.Context, store.Object[App]) error { return nil }
			return reconciled(owner.Finalizer[App]{Name: dns, Apply: nothing, Cleanup: nothing}.Reconcile(context.Background(), apps, "web"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for moment := c.from; ; moment++ {
				f := newFixture(t)
				old, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{dns, string(owner.Foreground)}})
				require.NoError(t, err)
				if c.deleting {
					f.deleteApp("web")
				}
				var next store.Object[App]
				anew := func() {
					_ = removeApp(f)
					next, err = f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: old.Finalizers})
					require.NoError(t, err)
				}
				steps := &crasher{at: -1, others: func(now int) {
					if now == moment {
						anew()
					}
				}}
				_ = c.call(fragile[App]{f.apps, steps}, f)
				if steps.now <= moment {
					require.Greater(t, moment, 4)
					break
				}
				now, err := f.apps.Get(t.Context(), "web")
				require.NoError(t, err)
				require.Equal(t, next, now, "at moment %d", moment)
			}
		})
	}
}

func TestCascadeCountsChildWhoseDeletionFailed(t *testing.T) {
	f, _ := family(t)
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	calls := interceptor.New(f.replicas)
	calls.Inject(interceptor.Rule{Op: "delete", Key: "a", Fault: interceptor.Fail(errBroken)})
	n, err := cascading(f.apps, f.children(calls))(t.Context(), "web")
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 3, n, "a failed; b and c are being deleted")
}

func TestOwnerThatIsNotReleasedIsAnError(t *testing.T) {
	f := newFixture(t)
	f.app("web")
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	calls := interceptor.New(f.apps)
	calls.Inject(interceptor.Rule{Op: "update", Fault: interceptor.Fail(errBroken)})
	_, err := cascading(calls, f.children(f.replicas))(t.Context(), "web")
	require.ErrorIs(t, err, errBroken)
	require.True(t, f.hasApp("web"))
}

func TestCascadeIgnoresOwnerReleasedConcurrently(t *testing.T) {
	f := newFixture(t)
	f.app("web")
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	calls := interceptor.New(f.replicas)
	calls.Inject(interceptor.Rule{Op: "list", Fault: interceptor.Before(func(context.Context) error {
		return errOf(store.Patch(t.Context(), f.apps, "web", func(o *store.Object[App]) error { o.Finalizers = nil; return nil }))
	})})
	require.Zero(t, left(t, cascading(f.apps, f.children(calls))))
	require.False(t, f.hasApp("web"))
}

func TestForegroundWaitsForSharedChildBeingDeleted(t *testing.T) {
	f := newFixture(t)
	web, shop := f.app("web"), f.app("shop")
	f.shared("a", web, shop)
	require.NoError(t, errOf(store.Patch(t.Context(), f.replicas, "a", func(o *store.Object[Replica]) error {
		o.Finalizers = []string{"disk"}
		return nil
	})))
	require.NoError(t, errOf(f.replicas.Delete(t.Context(), "a")))
	require.NoError(t, owner.Delete(t.Context(), f.apps, "web", owner.Foreground))
	cascade := cascading(f.apps, f.children(f.replicas))
	require.Equal(t, 1, left(t, cascade))
	require.Equal(t, []string{"web*", "shop"}, f.ownersOf("a"))
	f.finish("a")
	require.Zero(t, left(t, cascade))
	require.False(t, f.hasApp("web"))
}

// A child that another version of the program has written is still a child. If its owner went, Collect would delete it later, even if
// the policy was Orphan.
func TestCascadeKeepsOwnerWhileAChildDoesNotDecode(t *testing.T) {
	for _, how := range []owner.Policy{owner.Foreground, owner.Orphan} {
		f := newFixture(t)
		f.replicas = must(store.Open(f.db, "replica", store.Config[Replica]{}))
		web, children := f.app("web"), f.children(f.replicas)
		f.replica("web-1", &web)
		write := func(value string) {
			_, err := f.db.Transact(t.Context(), "replica", "web-1", nil, func(have backend.Record) (*backend.Record, error) {
				have.Value = []byte(value)
				return &have, nil
			})
			require.NoError(t, err)
		}
		write(`"of another version"`)
		require.NoError(t, owner.Delete(t.Context(), f.apps, "web", how))
		n, err := owner.Cascade(t.Context(), f.apps, "web", children)
		require.ErrorContains(t, err, `owner: delete app "web" and its children: it may be a child: store: list replica "web-1": the record does not decode`)
		require.ErrorIs(t, err, store.ErrDecode)
		require.Equal(t, 1, n)
		require.True(t, f.hasApp("web"))

		children.Among = func(store.Ref) store.Selector { return store.Selector{Prefix: "shop-"} }
		shop := f.app("shop")
		require.NoError(t, owner.Delete(t.Context(), f.apps, "shop", how))
		require.NoError(t, errOfCascade(owner.Cascade(t.Context(), f.apps, shop.Key, children)), "it is not among its children")
		children.Among = nil

		write(`{}`)
		require.NoError(t, errOfCascade(owner.Cascade(t.Context(), f.apps, "web", children)))
		require.False(t, f.hasApp("web"))
		if how == owner.Orphan {
			deleted, err := children.Collect(t.Context(), "web-1", owner.In(f.apps))
			require.NoError(t, err)
			require.False(t, deleted)
		}
	}
}

func errOfCascade(_ int, err error) error { return err }
