package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
)

// ownSlots owns the slots of some keys.
type ownSlots map[string]bool

func (ownSlots) Slot(string) int { return 0 }

func (s ownSlots) Begin(ctx context.Context, key string) (context.Context, func(), bool) {
	return ctx, func() {}, s[key]
}

// onePerSecond allows one reconcile a second.
func onePerSecond() workqueue.Config[string] {
	return workqueue.Config[string]{DispatchLimit: rate.NewLimiter(1, 1)}
}

func TestDispatchLimitDoesNotCountForeignKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Workers: 3, Queue: onePerSecond()}, noop)
		c.Share(ownSlots{"own": true, "next": true, "last": true})
		for i := range 60 {
			c.Add(fmt.Sprint("foreign", i))
		}
		c.Add("own")
		for i := range 60 {
			c.Add(fmt.Sprint("foreign", 60+i))
		}
		c.Add("next")
		c.Add("last")
		looptest.Start(t, c.Run)
		var got []int
		for range 4 {
			synctest.Wait()
			got = append(got, len(reports.All()))
			time.Sleep(time.Second)
		}
		assert.Equal(t, []int{1, 2, 3, 3}, got, "reconciles, at the start and after each second")
	})
}

func TestDispatchLimitDoesNotCountHeldKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newAwaited()
		cfg := controller.Config[string]{Workers: 3, Queue: onePerSecond(), Expectations: []controller.Expectations[string]{e}}
		c, reports := newController(t, cfg, noop)
		for i := range 60 {
			paused, held := fmt.Sprint("paused", i), fmt.Sprint("held", i)
			c.PauseKey(paused)
			e.expect(held, time.Time{})
			c.Add(paused)
			c.Add(held)
		}
		c.Add("own")
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"own"}, keysOf(reports.Take()))
		assert.Equal(t, 120, c.Stats().Held)
		time.Sleep(time.Hour)
		assert.Empty(t, reports.Take())

		for i := range 3 {
			c.ResumeKey(fmt.Sprint("paused", i))
			e.meet(fmt.Sprint("held", i))
		}
		for range 6 {
			synctest.Wait()
			assert.Len(t, reports.Take(), 1, "they were not dispatched for nothing, and do not start in a burst")
			time.Sleep(time.Second)
		}
		synctest.Wait()
		assert.Empty(t, reports.Take())
	})
}

func TestReconcileWithManyChildrenCostsOneToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const children = 50
		limit := rate.NewLimiter(rate.Every(time.Hour), 10)
		e := expectations.NewCounted(expectations.Config[string]{})
		cfg := controller.Config[string]{
			Workers: 3, Queue: workqueue.Config[string]{DispatchLimit: limit}, Expectations: []controller.Expectations[string]{e},
		}
		var c *controller.Controller[string]
		var reports *looptest.Log[controller.Report[string]]
		first := true
		c, reports = newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			if first {
				first = false
				e.ExpectCreations(key, children)
				c.Add(key) // the first event comes at once
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		for range children {
			e.CreationObserved("a")
			c.Add("a")
			synctest.Wait()
		}
		n := len(reports.Take())
		require.Contains(t, []int{2, 3}, n, "the last event may come after the reconcile has begun")
		assert.InDelta(t, 10-n, limit.Tokens(), 1e-6, "one for each reconcile")
	})
}

// Two controllers with the same keys call one API, three times for each key.
func TestControllersSharingLimiterMakeProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := gate.NewLimiter(10, 3)
		var mu sync.Mutex
		var calls []time.Duration // guarded by mu
		began := time.Now()
		call := func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(began))
			return nil
		}
		reconcile := func(ctx context.Context, _ string) (controller.Result, error) {
			for range 3 {
				if err := limit.Do(ctx, call); err != nil {
					return controller.Result{}, fmt.Errorf("call the API: %w", err)
				}
			}
			return controller.Result{}, nil
		}
		const keys = 30
		for range 2 {
			cfg := controller.Config[string]{Workers: 3, Queue: workqueue.Config[string]{MaxAttempts: 1}, Timeout: time.Millisecond}
			c, reports := newController(t, cfg, reconcile)
			r := looptest.Start(t, c.Run)
			for i := range keys {
				c.Add(fmt.Sprint(i))
			}
			t.Cleanup(func() {
				require.NoError(t, r.Stop())
				stats := c.Stats()
				assert.EqualValues(t, keys, stats.Outcomes[controller.Succeeded])
				assert.EqualValues(t, len(reports.Take()), stats.Outcomes[controller.Succeeded]+stats.Outcomes[controller.Unfinished], "none failed")
				assert.Empty(t, c.Snapshot())
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i := range calls {
			for j := i; j < len(calls); j++ {
				require.LessOrEqual(t, float64(j-i+1), 3+10*(calls[j]-calls[i]).Seconds()+1e-6)
			}
		}
		assert.Less(t, len(calls), 2*2*3*keys, "few calls are repeated")
		assert.Less(t, calls[len(calls)-1], 40*time.Second, "and little time is lost")
	})
}

// GaveUp belongs to the attempt whose error it receives. For a limiter, its calls follow those of the reconcile.
func TestGaveUpCallsPassTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := gate.NewLimiter(1, 3)
		call := func(context.Context) error { return nil }
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1, RateLimiter: &limiter{delay: time.Millisecond}}}
		cfg.GaveUp = func(ctx context.Context, _ string, _ error) error { return limit.Do(ctx, call) }
		c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			for range 2 {
				if err := limit.Do(ctx, call); err != nil {
					return controller.Result{}, err
				}
			}
			return controller.Result{}, errBoom
		})
		looptest.Start(t, c.Run)
		for i := range 10 {
			c.Add(fmt.Sprint(i))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, c.Parked(), 10)
		assert.Less(t, c.Stats().Outcomes[controller.Failed], uint64(30), "GaveUp sets its retry delay")
	})
}

func TestBurstOfEventsIsOneReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Debounce: time.Second}}
		c, reports := newController(t, cfg, noop)
		r := looptest.Start(t, c.Run)
		for range 5 {
			c.Add("a")
			time.Sleep(time.Second - 1)
			synctest.Wait()
		}
		assert.Empty(t, reports.Take())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1)

		c.Add("a")
		require.NoError(t, r.Stop(), "a debounced key is not ready")
		looptest.Start(t, c.Run)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1, "and is left to the next run")
	})
}

func TestKeyPutBackIsNotDebounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Debounce: time.Hour}, DrainTimeout: time.Second}
		stuck := true
		c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			if stuck {
				<-ctx.Done()
			}
			return controller.Result{}, ctx.Err()
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), controller.ErrDrainTimeout)
		assert.Equal(t, controller.Canceled, reports.Take()[0].Outcome)
		stuck = false
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome, "at once, by the next run")
	})
}

func TestGroupLimitLeavesWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		cfg := controller.Config[string]{Workers: 8, Queue: workqueue.Config[string]{
			Group: func(key string) string { tenant, _, _ := strings.Cut(key, "/"); return tenant }, GroupLimit: 2,
		}}
		c, reports := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			if strings.HasPrefix(key, "big/") {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
			}
			time.Sleep(time.Second)
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		for i := range 20 {
			c.Add("big/" + string(rune('a'+i)))
		}
		c.Add("small/a")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Contains(t, keysOf(reports.All()), "small/a")
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 21)
		assert.EqualValues(t, 2, most.Load())
	})
}
