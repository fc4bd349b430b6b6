package debug_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/debug"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/workqueue"
)

// why returns the sentences about a key.
func why(t *testing.T, h *debug.Handler, queue, key string) string {
	t.Helper()
	var sentences []string
	for _, s := range readJSON(t, h, "key?queue="+queue+"&key="+key)["why"].([]any) {
		sentences = append(sentences, s.(string))
	}
	return strings.Join(sentences, "\n")
}

// running runs a manager until the end of the test.
func running(t *testing.T, m *manager.Manager) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
	})
	synctest.Wait()
}

// plain is a manager of a controller, and its page.
func plain(t *testing.T, cfg manager.Config, reconcile func(context.Context, string) (controller.Result, error), of controller.Config[string],
	inputs ...controller.Input[string],
) (*controller.Controller[string], *manager.Manager, *debug.Handler) {
	t.Helper()
	of.Logger, cfg.Logger = quiet, quiet
	c, err := controller.New("sites", reconcile, of, inputs...)
	require.NoError(t, err)
	m, err := manager.New(cfg, c)
	require.NoError(t, err)
	h, err := debug.New(m, debug.Config{Logger: quiet})
	require.NoError(t, err)
	return c, m, h
}

func idle(context.Context, string) (controller.Result, error) { return controller.Result{}, nil }

func TestWhyNamesReplicaThatReconcilesKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		lease := func(name string) *leaderelect.Config {
			return &leaderelect.Config{
				Store: leases, Key: "ops", Identity: name, Logger: quiet, Metadata: map[string]string{"page": "http://" + name + ":6060/debug/"},
			}
		}
		_, a, ofA := plain(t, manager.Config{Election: lease("a")}, idle, controller.Config[string]{})
		_, b, ofB := plain(t, manager.Config{Election: lease("b")}, idle, controller.Config[string]{})
		assert.Equal(t, "It is not reconciled: no replica leads.", why(t, ofA, "sites", "berlin"))
		running(t, a)
		time.Sleep(3 * time.Second)
		running(t, b)
		assert.Equal(t, "Nothing to do: there has been no change since its last reconcile.", why(t, ofA, "sites", "berlin"))
		assert.Equal(t, "This replica does not lead. According to the lease, a (page http://a:6060/debug/) has led for 3.0 s, and reconciles it.",
			why(t, ofB, "sites", "berlin"))
	})
}

func TestWhyNamesLeaderWithoutMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		lease := func(name string) *leaderelect.Config {
			return &leaderelect.Config{Store: leases, Key: "ops", Identity: name, Logger: quiet}
		}
		_, a, _ := plain(t, manager.Config{Election: lease("a")}, idle, controller.Config[string]{})
		_, b, ofB := plain(t, manager.Config{Election: lease("b")}, idle, controller.Config[string]{})
		running(t, a)
		running(t, b)
		assert.Equal(t, "This replica does not lead. According to the lease, a has led for 0 ms, and reconciles it.", why(t, ofB, "sites", "berlin"))
	})
}

func TestWhyNamesOwnerOfSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := memlease.New()
		slots := func(name string) manager.Config {
			return manager.Config{Shards: &shard.Config{Slots: 4, Lease: leaderelect.Config{
				Store: leases, Key: "ops", Identity: name, Logger: quiet, Metadata: map[string]string{"page": "http://" + name + ":6060/debug/"},
			}}}
		}
		const done = "Nothing to do: there has been no change since its last reconcile."
		_, a, ofA := plain(t, slots("a"), idle, controller.Config[string]{})
		_, b, ofB := plain(t, slots("b"), idle, controller.Config[string]{})
		running(t, a)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, done, why(t, ofA, "sites", "berlin"))
		assert.Contains(t, why(t, ofB, "sites", "berlin"), "of 4, which holds this key, has no owner that this replica knows of.", "b has read nothing yet")
		running(t, b)
		time.Sleep(time.Minute)
		synctest.Wait()
		elsewhere := 0
		for _, key := range []string{"berlin", "oslo", "accra", "quito", "lima", "osaka"} {
			here, there, name := ofA, ofB, "a"
			if at(readJSON(t, ofA, "key?queue=sites&key="+key), "slot.here") != "true" {
				here, there, name = ofB, ofA, "b"
				elsewhere++
			}
			page := readJSON(t, there, "key?queue=sites&key="+key)
			assert.Equal(t, done, why(t, here, "sites", key))
			since, err := time.Parse(time.RFC3339, at(page, "slot.since"))
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprintf("Slot %s of 4, which holds this key, has belonged to %s (page http://%s:6060/debug/) for %s. "+
				"That replica reconciles it.", at(page, "slot.slot"), name, name, debug.Span(time.Since(since))), why(t, there, "sites", key))
			assert.Greater(t, time.Since(since), 30*time.Second)
		}
		assert.NotZero(t, elsewhere)
		assert.NotEqual(t, 6, elsewhere)
		assert.Equal(t, "2", at(readJSON(t, ofB, ""), "slots.0.acquired"), "half of them")
	})
}

func TestWhyNamesLastReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(_ context.Context, key string) (controller.Result, error) {
			switch key {
			case "parked":
				return controller.Result{}, retry.Permanent(errors.New("there is no region moon"))
			case "unfinished":
				return controller.Result{}, retry.NotYet(errors.New("the server starts"), time.Minute)
			}
			return controller.Result{}, retry.After(errors.New("status 503"), time.Minute)
		}
		c, m, h := plain(t, manager.Config{}, fails, controller.Config[string]{})
		running(t, m)
		for key, want := range map[string]string{
			"parked":     "It was given up 0 ms ago. Only a change or a retry brings it back.\nThe last reason: there is no region moon",
			"failing":    "It failed once, and will be retried in 1 min 0 s.\nThe last reason: status 503",
			"unfinished": "It will be reconciled again in 1 min 0 s, as its last reconcile requested.\nThe last reason: the server starts",
		} {
			c.Add(key)
			synctest.Wait()
			assert.Equal(t, want, why(t, h, "sites", key))
		}
	})
}

func TestWhyNamesWhatReadyKeyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hangs := func(context.Context, string) (controller.Result, error) {
			<-release
			return controller.Result{}, nil
		}
		c, m, h := plain(t, manager.Config{}, hangs, controller.Config[string]{
			Workers: 2, Queue: workqueue.Config[string]{Group: func(key string) string { return key[:1] }, GroupLimit: 1},
		})
		running(t, m)
		c.Add("a1")
		synctest.Wait()
		time.Sleep(5 * time.Second)
		c.Add("a2")
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, "It has been ready for 500 ms, and waits for a worker.", why(t, h, "sites", "a2"))
		time.Sleep(time.Second)
		assert.Equal(t, "It has been ready for 1.5 s, and waits for a worker. Only 1 of 2 workers are busy: a limit of its group or of the queue delays it.",
			why(t, h, "sites", "a2"))
		c.Add("b1")
		synctest.Wait()
		assert.Equal(t, "It has been ready for 1.5 s, and waits for a worker. 2 of 2 workers are busy, the longest for 6.5 s.", why(t, h, "sites", "a2"))
		c.Pause()
		assert.Equal(t, "The whole controller is paused.\nIt has been ready for 1.5 s, and waits for a worker.", why(t, h, "sites", "a2"))
		c.Resume()
		close(release)
	})
}

func TestWhyNamesExpectation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := expectations.NewCounted[string](expectations.Config[string]{Name: "servers", TTL: time.Minute})
		c, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{Expectations: []controller.Expectations[string]{made}})
		running(t, m)
		made.ExpectCreations("berlin", 1)
		c.Add("berlin")
		synctest.Wait()
		time.Sleep(10 * time.Second)
		assert.Equal(t, "It has waited for the expectations servers for 10 s: not all effects of its last reconcile have been seen. "+
			"It waits for at most another 50 s.",
			why(t, h, "sites", "berlin"))
	})
}

func TestWhySaysSinceWhenKeyIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m, h := plain(t, manager.Config{}, func(_ context.Context, key string) (controller.Result, error) {
			switch key {
			case "later":
				return controller.Result{RequeueAfter: time.Hour}, nil
			case "fenced":
				return controller.Result{}, store.ErrFenced
			case "busy":
				time.Sleep(140 * time.Second)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{Workers: 2})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		synctest.Wait()
		for _, key := range []string{"later", "fenced", "busy"} {
			c.Add(key)
		}
		synctest.Wait()
		for _, key := range []string{"paused", "due", "later"} {
			c.PauseKey(key)
		}
		time.Sleep(time.Minute)
		c.Add("due")
		time.Sleep(time.Minute)
		assert.Contains(t, why(t, h, "sites", "later"), "It was paused 2 min 0 s ago: no new reconcile of it will start.")
		assert.Contains(t, why(t, h, "sites", "fenced"),
			"A store refused its write 2 min 0 s ago, because another replica leads. The next run reconciles it.")
		cancel()
		synctest.Wait()
		c.Add("drained")
		time.Sleep(5 * time.Second)
		for key, want := range map[string]string{
			"paused":  "It was paused 2 min 5 s ago. If it is added, it is held until it is resumed.",
			"due":     "It was paused 2 min 5 s ago, and has been due for 1 min 5 s. It will be reconciled after it is resumed.",
			"drained": "It has been held for 5.0 s, because the controller drains. The next run reconciles it.",
		} {
			assert.Contains(t, why(t, h, "sites", key), want)
		}
		assert.Equal(t, "65", at(readJSON(t, h, "queue?name=sites"), "queue.oldestHeldSeconds.pause"))
		assert.Contains(t, read(t, h, "queue?name=sites"), "2 held by pause, the oldest for 1 min 5 s", "due, and later, which the drain has made due")
		require.NoError(t, <-ended)
	})
}

func TestWhySaysThatNoCacheHasObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites, err := store.Open(db, "Site", store.Config[int]{})
		require.NoError(t, err)
		seen, err := informer.New(sites, store.Key, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		assert.Equal(t, "The controller is not running yet: it waits for the first list of cached.", why(t, h, "sites", "berlin"))
		running(t, m)
		assert.Equal(t, "Nothing to do: no cache of this controller has an object with this key.", why(t, h, "sites", "berlin"))
	})
}

func TestWhySaysThatObjectCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		_, err := db.Transact(t.Context(), "Site", "berlin", nil, func(backend.Record) (*backend.Record, error) {
			return &backend.Record{Meta: []byte("{}"), Value: []byte("<site/>")}, nil
		})
		require.NoError(t, err)
		sites, err := store.Open(db, "Site", store.Config[int]{})
		require.NoError(t, err)
		seen, err := informer.New(sites, store.Key, informer.Config{Name: "cached", Logger: quiet})
		require.NoError(t, err)
		c, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{Logger: quiet}, controller.For(seen))
		running(t, m)
		const cause = `The cache cached cannot read its object: store: list Site "berlin": the record does not decode`
		text := why(t, h, "sites", "berlin")
		assert.Contains(t, text, cause)
		assert.NotContains(t, text, "Nothing to do")
		c.Add("berlin")
		time.Sleep(time.Minute)
		text = why(t, h, "sites", "berlin")
		assert.Contains(t, text, "It has been held for 1 min 0 s, because its object cannot be read into the cache cached.")
		assert.Contains(t, text, cause)
		assert.Equal(t, "1 0", at(readJSON(t, h, ""), "informers.0.unread")+" "+at(readJSON(t, h, ""), "informers.0.missing"))
		assert.Contains(t, read(t, h, ""), "1 unread")
	})
}

func TestOverviewShowsWhyPollFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		list := func(context.Context) ([]string, error) {
			if down.Load() {
				return nil, errors.New("status 503")
			}
			return []string{"berlin"}, nil
		}
		name := func(site string) string { return site }
		source, err := poll.New(list, name, poll.Config[string]{})
		require.NoError(t, err)
		seen, err := informer.New(source, name, informer.Config{Name: "polled", Logger: quiet})
		require.NoError(t, err)
		_, m, h := plain(t, manager.Config{}, idle, controller.Config[string]{}, controller.For(seen))
		running(t, m)
		of := func(field string) string { return at(readJSON(t, h, ""), "informers.0."+field) }
		assert.Equal(t, "true 0 ", of("watching")+" "+of("errors")+" "+of("error"))
		down.Store(true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, "false 1 poll: list: status 503", of("watching")+" "+of("errors")+" "+of("error"))
		assert.Contains(t, read(t, h, ""), "poll: list: status 503")
		down.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, "true ", of("watching")+" "+of("error"))
	})
}

// A site is done with its own work, and its servers are not: the page of the site leads to them.
func TestWhyNamesChildrenInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := store.NewMemory(store.MemoryConfig{})
		sites, err := store.Open(db, "Site", store.Config[int]{})
		require.NoError(t, err)
		servers, err := store.Open(db, "Server", store.Config[int]{})
		require.NoError(t, err)
		site, err := sites.Create(t.Context(), store.Object[int]{Key: "berlin"})
		require.NoError(t, err)
		for _, key := range []string{"failing-1", "failing-2", "failing-3", "fine", "parked"} {
			_, err := servers.Create(t.Context(), store.Object[int]{Key: key, Owners: []store.OwnerRef{{Ref: site.Ref(), Controller: true}}})
			require.NoError(t, err)
		}
		seen, err := informer.New(sites, store.Key, informer.Config{Name: "sites", Logger: quiet})
		require.NoError(t, err)
		seenServers, err := informer.New(servers, store.Key, informer.Config{Name: "servers", Logger: quiet})
		require.NoError(t, err)
		ofSites, err := controller.New("sites", idle, controller.Config[string]{Logger: quiet}, controller.For(seen), controller.Owns(seenServers, "Site"))
		require.NoError(t, err)
		ofServers, err := controller.New("servers", func(_ context.Context, key string) (controller.Result, error) {
			switch {
			case key == "parked":
				return controller.Result{}, retry.Permanent(errors.New("there is no region moon"))
			case strings.HasPrefix(key, "failing"):
				return controller.Result{}, retry.After(errors.New("status 503"), time.Minute)
			}
			return controller.Result{}, nil
		}, controller.Config[string]{Logger: quiet, Reasons: true}, controller.For(seenServers))
		require.NoError(t, err)
		m, err := manager.New(manager.Config{Logger: quiet}, ofSites, ofServers)
		require.NoError(t, err)
		h, err := debug.New(m, debug.Config{Logger: quiet})
		require.NoError(t, err)
		running(t, m)
		assert.Equal(t, "Nothing to do: there has been no change since its last reconcile.\n"+
			"Its child Server parked was given up: there is no region moon\nIts child Server failing-1 failed once: status 503\n"+
			"Its child Server failing-2 failed once: status 503\nOther children that are parked or fail: 1.", why(t, h, "sites", "berlin"))
		assert.Equal(t, "Nothing to do: there has been no change since its last reconcile.", why(t, h, "servers", "fine"), "it has none")
		defer func() {
			_, err := servers.Delete(t.Context(), "failing-3")
			require.NoError(t, err)
			synctest.Wait()
			assert.NotContains(t, why(t, h, "sites", "berlin"), "Other children")
		}()
		page := readJSON(t, h, "key?queue=servers&key=fine")
		assert.Equal(t, "parked", at(readJSON(t, h, "key?queue=sites&key=berlin"), "tree.0.children.4.state"))
		assert.Empty(t, at(page, "tree.0.children.0.state"))
		assert.Contains(t, read(t, h, "key?queue=sites&key=berlin"), `<span class="pill s-parked">parked</span>`)
	})
}

func TestStackIsThatOfCurrentReconcileAndAtMostFiveSecondsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		c, m, h := plain(t, manager.Config{}, func(context.Context, string) (controller.Result, error) {
			<-gate
			gate <- struct{}{}
			return controller.Result{}, nil
		}, controller.Config[string]{})
		running(t, m)
		stack := func() string {
			synctest.Wait()
			return at(readJSON(t, h, "key?queue=sites&key=a"), "stack")
		}
		c.Add("a")
		assert.Contains(t, stack(), "chan receive")
		gate <- struct{}{}
		time.Sleep(5*time.Second - time.Nanosecond)
		assert.Contains(t, stack(), "chan receive")
		time.Sleep(time.Nanosecond)
		assert.Contains(t, stack(), "chan send")
		c.Add("a")
		<-gate
		assert.Contains(t, stack(), "chan receive", "of the next reconcile")
		gate <- struct{}{}
		<-gate
		assert.Empty(t, stack())
	})
}
