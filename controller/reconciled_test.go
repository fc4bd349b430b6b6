package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// mirrored is a source that mirrors a kind, and whose watches are behind.
type mirrored struct {
	lagging
	kind string
}

func (m mirrored) Clock() written.Clock { return written.Clock{Kind: m.kind} }

// wrote is what a write has returned.
type wrote struct {
	kind    string
	version informer.Version
}

func (w wrote) At() (string, informer.Version) { return w.kind, w.version }

func TestWaitReconciledReturnsAfterWriteIsReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a", Value: 1})
		inf := must(informer.New(informer.ListWatcher[object](mirrored{lagging{s, time.Minute}, "Thing"}), keyOf, informer.Config{Name: "things"}))
		looptest.Start(t, inf.Run)
		var applied atomic.Int64 // of a
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			o, _ := inf.Get(key)
			time.Sleep(time.Second)
			if key == "a" {
				applied.Store(int64(o.Value))
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(time.Hour)

		reports.Take()
		began := time.Now()
		s.set(object{Key: "a", Value: 2}) // version 2
		c.Add("a")                        // begins before the cache has seen it
		require.NoError(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 2}))
		assert.Equal(t, time.Minute+time.Second, time.Since(began))
		assert.EqualValues(t, 2, applied.Load())
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(reports.Take()), 3, "before, for the event, and perhaps once more")

		began = time.Now()
		require.NoError(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 2}), "once more")
		assert.Equal(t, time.Second, time.Since(began))
		assert.Len(t, reports.Take(), 1)
		require.NoError(t, c.WaitReconciled(t.Context(), "never added", wrote{"Thing", 1}))

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := c.WaitReconciled(ctx, "a", wrote{"Thing", 99})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), `controller: wait for "test" to reconcile a: `)
		assert.Contains(t, err.Error(), "things")
		assert.Zero(t, c.Waiters(), "no waiter is left")
	})
}

func TestWaitReconciledFindsCachesOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := must(store.NewMemory(store.MemoryConfig{}))
		sites := must(store.Open[int](db, "Site", store.Config[int]{}))
		servers := must(store.Open[int](db, "Server", store.Config[int]{}))
		seenSites := must(informer.New(late{sites, time.Minute}, store.Key, informer.Config{Name: "sites"}))
		behind := must(informer.New(late{sites, 2 * time.Minute}, store.Key, informer.Config{Name: "sites, later"}))
		seenServers := must(informer.New(late{servers, time.Hour}, store.Key, informer.Config{Name: "servers"}))
		polled := newInformer("no store", newSource(object{Key: "a"}))
		for _, inf := range []controller.Informer{seenSites, behind, seenServers, polled} {
			looptest.Start(t, inf.Run)
		}
		for _, stale := range []bool{false, true} {
			c, _ := newController(t, controller.Config[string]{Reads: []controller.Informer{behind}, StaleReads: stale}, noop,
				controller.For(seenSites), controller.For(seenServers), controller.For(polled))
			r := looptest.Start(t, c.Run)
			synctest.Wait()
			key := fmt.Sprint("a", stale)
			site := must(sites.Create(t.Context(), store.Object[int]{Key: key}))
			server := must(servers.Create(t.Context(), store.Object[int]{Key: key}))
			shown := func() (n int) {
				for _, inf := range []*store.Informer[int]{seenSites, behind, seenServers} {
					if _, ok := inf.Get(key); ok {
						n++
					}
				}
				return n
			}
			require.NoError(t, c.WaitReconciled(t.Context(), key))
			assert.Zero(t, shown(), "no cache is asked")
			require.NoError(t, c.WaitReconciled(t.Context(), key, site))
			assert.Equal(t, 2, shown(), "every informer of the kind, also one that is only read")
			require.NoError(t, c.WaitReconciled(t.Context(), key, site, server))
			assert.Equal(t, 3, shown())
			deleted := must(sites.Delete(t.Context(), key))
			require.NoError(t, c.WaitReconciled(t.Context(), key, deleted))
			assert.Equal(t, 1, shown())

			err := c.WaitReconciled(t.Context(), key, store.Object[int]{Kind: "Disk", Version: 1})
			require.EqualError(t, err, `controller: wait for "test" to reconcile `+key+`: no informer of the controller mirrors a store of kind "Disk"`)
			require.NoError(t, r.Stop())
		}
	})
}

func TestWaitReconciledErrorForEachOutcome(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			n := 0
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: 10 * time.Second}
			c, _ := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if n++; n == 1 {
					return e.end(ctx, key)
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			synctest.Wait()
			if e.outcome == controller.Unfinished && e.again == 0 {
				time.AfterFunc(time.Hour, func() { c.Add("a") })
			}
			err := c.WaitReconciled(t.Context(), "a")
			switch e.outcome {
			case controller.Succeeded:
				require.NoError(t, err)
				assert.Equal(t, 1, n)
			case controller.Parked:
				require.ErrorIs(t, err, e.err)
				require.ErrorIs(t, err, controller.ErrParked)
				assert.Equal(t, 1, n)
			default:
				require.NoError(t, err)
				assert.Equal(t, 2, n, "it was tried again")
			}
		})
	}
	bubble(t, "parked", func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3}}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, errBoom
		})
		looptest.Start(t, c.Run)
		for range 2 { // a key that is parked is revived
			err := c.WaitReconciled(t.Context(), "a")
			require.ErrorIs(t, err, controller.ErrParked)
			require.ErrorIs(t, err, errBoom)
		}
		assert.EqualValues(t, 2, c.Stats().Outcomes[controller.Parked])
	})
	bubble(t, "a stop: the next run does it", func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(ctx context.Context, _ string) (controller.Result, error) {
			select {
			case <-time.After(time.Minute):
				return controller.Result{}, nil
			case <-ctx.Done():
				return controller.Result{}, ctx.Err()
			}
		})
		r := looptest.Start(t, c.Run)
		waited := make(chan error, 1)
		go func() { waited <- c.WaitReconciled(context.Background(), "a") }()
		synctest.Wait()
		require.Error(t, r.Stop())
		looptest.Start(t, c.Run)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		assert.Empty(t, waited)
		require.NoError(t, <-waited)
	})
	bubble(t, "an informer that has ended", func(t *testing.T) {
		inf := must(informer.New(informer.ListWatcher[object](mirrored{lagging{newSource(), 0}, "Thing"}), keyOf, informer.Config{}))
		r := looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{}, noop, controller.For(inf))
		synctest.Wait()
		require.NoError(t, r.Stop())
		require.ErrorIs(t, c.WaitReconciled(t.Context(), "a", wrote{"Thing", 5}), informer.ErrEnded)
	})
}

func TestWaitIdleReturnsWhenNothingIsReadyInFlightOrHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := newAwaited()
		var after atomic.Int64
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{exp}},
			func(ctx context.Context, key string) (controller.Result, error) {
				_, err := slow(ctx, key)
				return controller.Result{RequeueAfter: time.Duration(after.Load())}, err
			})
		r := looptest.Start(t, c.Run)
		require.NoError(t, c.WaitIdle(t.Context()))
		for i := range 5 {
			c.Add(fmt.Sprint("k", i))
		}
		began := time.Now()
		require.NoError(t, c.WaitIdle(t.Context()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		assert.Len(t, reports.Take(), 5)

		exp.expect("a", time.Time{})
		c.PauseKey("b")
		c.Add("a")
		c.Add("b")
		idle := make(chan error, 1)
		go func() { idle <- c.WaitIdle(context.Background()) }()
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "two are held")
		exp.meet("a")
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "one is held")
		after.Store(int64(time.Hour))
		c.ResumeKey("b")
		began = time.Now()
		require.NoError(t, <-idle)
		assert.Equal(t, time.Second, time.Since(began), "delayed keys do not count")

		c.Pause()
		c.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.WaitIdle(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Contains(t, err.Error(), `controller: wait for "test" to be idle: `)
		c.Resume()
		synctest.Wait()
		r.Cancel() // while a is in flight
		synctest.Wait()
		c.Add("late")
		go func() { idle <- c.WaitIdle(context.Background()) }()
		require.NoError(t, r.Stop())
		time.Sleep(time.Hour)
		assert.Empty(t, idle, "a key added during a drain must be done")
		after.Store(0)
		looptest.Start(t, c.Run)
		require.NoError(t, <-idle)
		ctx, cancel = context.WithCancel(t.Context())
		c.PauseKey("z")
		c.Add("z")
		synctest.Wait()
		cancel()
		require.ErrorIs(t, c.WaitIdle(ctx), context.Canceled, "while a key is held")
	})
}

func TestKeyIsParkedBeforeErrParkedIsReturned(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{Workers: 2, Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: quiet},
		func(context.Context, string) (controller.Result, error) { return controller.Result{}, errBoom })
	r := looptest.Start(t, c.Run)
	for range 3000 {
		require.ErrorIs(t, c.WaitReconciled(t.Context(), "a"), controller.ErrParked)
		require.True(t, c.Drop("a"))
	}
	require.NoError(t, r.Stop())
}
