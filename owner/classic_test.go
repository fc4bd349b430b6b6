package owner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// The bugs that real controllers have had, each with a reconciler that has it and one that has not. Most were found by Sieve
// (https://github.com/sieve-project/sieve). The first of them, a cache that does not show one's own writes, is the subject of
// replicas_test.go.

// Of a controller that starts on a cache that lags behind. It shows an app that is being deleted, and so the controller
// deletes what the app has. But in truth that is done, and the app was created again: see
// https://github.com/pravega/zookeeper-operator/issues/312.
func TestDeletingByNameRemovesRecreatedChildren(t *testing.T) {
	for _, c := range []struct {
		name string
		// remove deletes a child that the cache shows.
		remove func(ctx context.Context, s store.Store[Replica], shown store.Object[Replica]) error
		left   string
		err    error
	}{
		{"wrong: by its name", func(ctx context.Context, s store.Store[Replica], shown store.Object[Replica]) error {
			return errOf(s.Delete(ctx, shown.Key))
		}, "", nil},
		{"right: by its UID", func(ctx context.Context, s store.Store[Replica], shown store.Object[Replica]) error {
			return errOf(s.Delete(ctx, shown.Key, store.IfUID(shown.UID)))
		}, "web-data", store.ErrConflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				web, err := f.apps.Create(t.Context(), store.Object[App]{Key: "web", Finalizers: []string{"children"}})
				require.NoError(t, err)
				f.replica("web-data", &web)
				f.deleteApp("web")
				source := lag[Replica](f.replicas)
				apps, replicas := mirror(t, lag[App](f.apps)), mirror(t, source)

				// The cache does not see this: another process finishes, and the app is created again.
				require.NoError(t, errOf(f.replicas.Delete(t.Context(), "web-data")))
				require.NoError(t, removeApp(f))
				again := f.app("web")
				f.replica("web-data", &again)

				reconcile := func(key string) (errs error) {
					app, ok := apps.Get(key)
					if !ok || app.Deleting.IsZero() {
						return nil
					}
					for _, child := range cache.AddIndex(replicas.Indexer(), controllerUID).All(app.UID) {
						errs = errors.Join(errs, c.remove(t.Context(), f.replicas, child))
					}
					return errs
				}
				require.ErrorIs(t, reconcile("web"), c.err)
				require.Equal(t, c.left, f.keys())
				source.catchUp()
				require.NoError(t, reconcile("web"), "when the cache has caught up, there is nothing to do")
			})
		})
	}
}

// Site is an app that reports on itself.
type Site struct {
	Replicas int
	Status   struct{ Running int } `store:"status"`
}

// A status is a report of the past. A controller that trusts its own report does not notice that a replica is gone.
// It also creates replicas twice if it crashed before reporting them: see
// https://github.com/aws-controllers-k8s/community/issues/2062.
func TestStatusIsNotTheActualState(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		name    string
		running func(f *fixture, site store.Object[Site]) int
		want    string
	}{
		{"wrong: it reads its own report", func(_ *fixture, site store.Object[Site]) int {
			return site.Value.Status.Running
		}, "after a loss 1, after a crash 4"},
		{"right: it counts, and reports the count", func(f *fixture, _ store.Object[Site]) int {
			return len(strings.Fields(f.keys()))
		}, "after a loss 2, after a crash 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// run reconciles a site of two replicas, of which something goes wrong once, and returns how many there are in the end.
			run := func(crash bool) int {
				f := newFixture(t)
				sites, err := store.Open[Site](f.db, "site", store.Config[Site]{})
				require.NoError(t, err)
				_, err = sites.Create(ctx, store.Object[Site]{Key: "web", Value: Site{Replicas: 2}})
				require.NoError(t, err)
				names := 0
				reconcile := func(crash bool) {
					site, err := sites.Get(ctx, "web")
					require.NoError(t, err)
					for range site.Value.Replicas - c.running(f, site) {
						names++
						f.replica(fmt.Sprint("web-", names), nil)
					}
					if crash {
						return // between the writes and the report on them
					}
					site.Value.Status.Running = site.Value.Replicas
					_, err = sites.UpdateStatus(ctx, site)
					require.NoError(t, err)
				}
				reconcile(crash)
				if !crash {
					require.NoError(t, errOf(f.replicas.Delete(ctx, "web-1"))) // its machine is lost
				}
				reconcile(false)
				reconcile(false)
				return len(strings.Fields(f.keys()))
			}
			require.Equal(t, c.want, fmt.Sprintf("after a loss %d, after a crash %d", run(false), run(true)))
		})
	}
}

// A controller creates two objects but checks only whether the first one exists. After a crash in between, it never
// creates the second: see https://github.com/rabbitmq/cluster-operator/issues/782.
func TestCrashBetweenWritesNeedsCheckingBoth(t *testing.T) {
	ensure := func(ctx context.Context, s store.Store[Replica], key string) error {
		_, err := s.Create(ctx, store.Object[Replica]{Key: key})
		if errors.Is(err, store.ErrExists) {
			return nil // also by a write whose answer was lost
		}
		return err
	}
	for _, c := range []struct {
		name      string
		reconcile func(ctx context.Context, s store.Store[Replica]) error
		left      []string // what there is in the end, for a crash at each moment
	}{
		{"wrong: it checks only the first", func(ctx context.Context, s store.Store[Replica]) error {
			_, err := s.Get(ctx, "web-cert")
			if !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err := ensure(ctx, s, "web-cert"); err != nil {
				return err
			}
			return ensure(ctx, s, "web-secret")
		}, []string{"web-cert", "web-cert web-secret"}},
		{"right: it checks each one", func(ctx context.Context, s store.Store[Replica]) error {
			return errors.Join(ensure(ctx, s, "web-cert"), ensure(ctx, s, "web-secret"))
		}, []string{"web-cert web-secret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := map[string]bool{}
			for at := range 8 {
				f := newFixture(t)
				stops := &crasher{at: at}
				for range 3 { // each time as after a restart
					_ = c.reconcile(t.Context(), fragile[Replica]{f.replicas, stops})
				}
				left[strings.ReplaceAll(f.keys(), "*", "")] = true
			}
			want := map[string]bool{}
			for _, keys := range c.left {
				want[keys] = true
			}
			require.Equal(t, want, left)
		})
	}
}

// An app is deleted while the controller is down. No event will ever report that. Either the controller finds the work in the current
// state (children without an owner), or the deletion waits for the controller (a finalizer). See
// https://github.com/instaclustr/cassandra-operator/issues/398.
func TestUnseenDeletionIsMissedByEventHandlers(t *testing.T) {
	type (
		apps     = informer.Handler[string, store.Object[App]]
		replicas = informer.Handler[string, store.Object[Replica]]
	)
	for _, c := range []struct {
		name     string
		handlers func(f *fixture) (apps, replicas)
		up, down string // what is left of a deletion while the controller is up, and while it is down
	}{
		{"wrong: it deletes the children in OnDelete", func(f *fixture) (apps, replicas) {
			return apps{OnDelete: func(d cache.Tombstone[string, store.Object[App]]) {
				for key := range strings.FieldsSeq(f.keys()) {
					if o := f.now(key); appOf(o) == d.Key {
						require.NoError(f.t, errOf(f.replicas.Delete(f.t.Context(), key, store.IfUID(o.UID))))
					}
				}
			}}, replicas{}
		}, "", "web-1"},
		{"right: it reads the owner of each child", func(f *fixture) (apps, replicas) {
			collector := collecting(f.children(f.replicas), owner.In(f.apps))
			collect := func(key string) {
				_, err := collector(f.t.Context(), key)
				require.NoError(f.t, err)
			}
			return apps{OnDelete: func(cache.Tombstone[string, store.Object[App]]) {
					for key := range strings.FieldsSeq(f.keys()) {
						collect(key)
					}
				}}, replicas{
					OnAdd: func(o store.Object[Replica], _ bool) { collect(o.Key) },
				}
		}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// start starts the controller, and returns the end of it.
				start := func(f *fixture) (stop func()) {
					ofApps, ofReplicas := c.handlers(f)
					_, stopApps := mirrorUntil(t, f.apps, ofApps)
					_, stopReplicas := mirrorUntil(t, f.replicas, ofReplicas)
					return func() { stopApps(); stopReplicas() }
				}
				f := newFixture(t)
				web := f.app("web")
				f.replica("web-1", &web)
				stop := start(f)
				f.deleteApp("web")
				synctest.Wait()
				require.Equal(t, c.up, f.keys())
				stop()

				f = newFixture(t)
				web = f.app("web")
				f.replica("web-1", &web)
				start(f)()
				f.deleteApp("web")
				start(f)()
				require.Equal(t, c.down, f.keys())
			})
		})
	}
}
