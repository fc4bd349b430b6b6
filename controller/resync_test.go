package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Guarantee 12: when, and which keys.
func TestResyncReconcilesEveryKeyOncePerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "absent", Owner: "absent"})
		var want []string
		for i := range 50 {
			s.set(object{Key: fmt.Sprint("k", i), Owner: "shared", Value: 1})
			want = append(want, fmt.Sprint("k", i))
		}
		want = append(want, "shared")
		slices.Sort(want)
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		never := func(_, _ object) bool { return false }
		counts := func(o object) bool { return o.Value > 0 }
		at := &looptest.Log[time.Duration]{}
		began := time.Now()
		c, reports := newController(t, controller.Config[string]{Resync: time.Hour}, func(context.Context, string) (controller.Result, error) {
			at.Add(time.Since(began))
			return controller.Result{}, nil
		}, controller.For(inf).Where(counts).When(never), controller.Watches(inf, owner).Where(counts).When(never),
			controller.Handles(inf, func(add func(string)) informer.Handler[string, object] { return informer.Handler[string, object]{} }))
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, want, sorted(reports.Take()), "the first list")
		at.Take()
		var turns []time.Duration
		for period := range 3 {
			time.Sleep(time.Hour - time.Nanosecond)
			synctest.Wait()
			assert.Equal(t, want, sorted(reports.Take()), "period %d", period)
			moments := at.Take()
			slices.Sort(moments)
			for i := range moments {
				moments[i] -= time.Duration(period) * time.Hour
			}
			assert.Len(t, slices.Compact(slices.Clone(moments)), len(want), "each when it is due")
			for q := range 4 {
				first := slices.IndexFunc(moments, func(d time.Duration) bool { return d >= time.Duration(q)*15*time.Minute })
				require.GreaterOrEqual(t, first, 0)
				assert.Less(t, moments[first], time.Duration(q+1)*15*time.Minute, "spread over the whole period")
			}
			if period > 0 {
				assert.Equal(t, turns, moments, "a key has the same turn in each period")
			}
			turns = moments
			time.Sleep(time.Nanosecond)
		}
		synctest.Wait()
		s.delete("k7")
		s.set(object{Key: "k8", Value: 0, Owner: "shared"}) // does not count any more
		synctest.Wait()
		reports.Take()
		time.Sleep(2 * time.Hour)
		times := map[string]int{}
		for _, key := range keysOf(reports.Take()) {
			times[key]++
		}
		for _, key := range want {
			n := 2
			if key == "k7" || key == "k8" {
				n = 1 // its turn was set when the period began
			}
			assert.Equal(t, n, times[key], key)
		}
		require.NoError(t, r.Stop())
		assertNoWorkers(t)
		time.Sleep(2 * time.Hour)
		assert.Empty(t, reports.Take(), "not between two Runs")
	})
}

// Guarantee 12: priority.
func TestResyncHasBackgroundPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		var reasons []string
		ended := false
		c, _ := newController(t, controller.Config[string]{Resync: time.Minute, Reasons: true, CancelSuperseded: true},
			func(ctx context.Context, key string) (controller.Result, error) {
				if info, _ := controller.FromContext(ctx); len(info.Reasons) > 0 {
					reasons = append(reasons, info.Reasons[0].Text)
				}
				if key == "a" && len(reasons) == 2 {
					select {
					case <-time.After(time.Hour):
					case <-ctx.Done():
						ended = true
					}
				}
				return controller.Result{}, nil
			}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"things listed", "resync"}, reasons)
		assert.False(t, ended, "it ends no reconcile")
		a, _ := c.Inspect().Key("a")
		assert.True(t, a.Dirty)
		assert.Equal(t, -1, a.Priority, "and it waits behind new events")
	})
}

func TestConnectedControllerResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		c, _ := newController(t, controller.Config[string]{Resync: time.Minute}, noop, controller.For(inf))
		disconnect, err := c.Connect(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for range 3 {
			_, ok := c.Step(t.Context(), "a")
			require.True(t, ok)
			assert.Empty(t, c.Ready())
			time.Sleep(2 * time.Minute)
		}
		disconnect()
		_, ok := c.Step(t.Context(), "a")
		require.True(t, ok)
		time.Sleep(time.Hour)
		assert.Empty(t, c.Ready())
	})
}

// Guarantee 12: parked keys.
func TestResyncRevivesParkedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var fails atomic.Bool
		fails.Store(true)
		cfg := controller.Config[string]{Resync: time.Hour, Queue: workqueue.Config[string]{MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second}}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if fails.Load() {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		c.Add("unknown to the watch")
		period := func() map[string][]controller.Outcome {
			time.Sleep(time.Hour)
			synctest.Wait()
			outcomes := map[string][]controller.Outcome{}
			for _, r := range reports.Take() {
				outcomes[r.Key] = append(outcomes[r.Key], r.Outcome)
			}
			c.CheckInvariants(t)
			return outcomes
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		period() // a resync may have come while a key had attempts left
		budget := []controller.Outcome{controller.Failed, controller.Failed, controller.Parked}
		for range 3 {
			assert.Equal(t, map[string][]controller.Outcome{"a": budget, "unknown to the watch": budget}, period(), "a whole budget in each period")
			assert.ElementsMatch(t, []string{"a", "unknown to the watch"}, c.Parked())
		}
		fails.Store(false)
		period()
		period() // the moments of a period are those of keys that were parked when it began
		assert.Empty(t, c.Parked())
	})
}

func TestResyncRetriesFailedMapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFlakyWorld(t, controller.Config[string]{Resync: time.Hour}, object{Key: "a", Owner: "x"})
		time.Sleep(59 * time.Minute)
		w.keys()
		w.break_("x")
		time.Sleep(2 * time.Minute)
		w.keys() // x, if its random turn was in these two minutes
		assert.Equal(t, 1, w.c.Stats().Unmapped)
		w.source.set(object{Key: "a", Owner: "y"})
		assert.Equal(t, []string{"y"}, w.keys())
		w.source.set(object{Key: "a", Owner: "z"})
		assert.Equal(t, []string{"y", "z"}, w.keys(), "y was the former owner")
		w.break_()
		time.Sleep(2 * time.Minute)
		assert.Contains(t, w.keys(), "x")
		assert.Zero(t, w.c.Stats().Unmapped)
		w.break_("z")
		time.Sleep(time.Hour)
		require.NoError(t, w.run.Stop())
		assertNoWorkers(t)
	})
}

// countHeld makes cfg record how many keys c holds each time that the queue gets a key.
func countHeld(cfg *controller.Config[string], c **controller.Controller[string]) *looptest.Log[int] {
	held := &looptest.Log[int]{}
	cfg.Queue.Hooks.Added = func(string, int) { held.Add((*c).Stats().Held) }
	return held
}

// A key must be in the queue or held at every moment, or WaitIdle returns too early.
func TestKeyIsHeldUntilQueued(t *testing.T) {
	bubble(t, "resumed", func(t *testing.T) {
		var c *controller.Controller[string]
		cfg := controller.Config[string]{}
		held := countHeld(&cfg, &c)
		c, _ = newController(t, cfg, noop)
		c.PauseKey("a")
		c.Add("a")
		_, ok := c.Step(t.Context(), "a")
		require.False(t, ok)
		held.Take()
		c.ResumeKey("a")
		assert.Equal(t, []int{1}, held.Take())
		assert.Zero(t, c.Stats().Held)
	})
	bubble(t, "expectations are met", func(t *testing.T) {
		var c *controller.Controller[string]
		seen := expectations.NewVersions(expectations.Config[string]{})
		cfg := controller.Config[string]{Expectations: []controller.Expectations[string]{seen}}
		held := countHeld(&cfg, &c)
		c, reports := newController(t, cfg, noop)
		looptest.Start(t, c.Run)
		seen.ExpectVersion("a", 1)
		c.Add("a")
		synctest.Wait()
		c.Pause() // or a worker might be done with the key before the hook is called
		synctest.Wait()
		held.Take()
		seen.VersionObserved(1)
		assert.Equal(t, []int{1}, held.Take())
		c.Resume()
		synctest.Wait()
		assert.Zero(t, c.Stats().Held)
		assert.Len(t, reports.Take(), 1)
	})
	bubble(t, "left to the next Run", func(t *testing.T) {
		var c *controller.Controller[string]
		cfg := controller.Config[string]{}
		held := countHeld(&cfg, &c)
		c, _ = newController(t, cfg, slow)
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("b") // while a is drained
		held.Take()
		require.NoError(t, r.Stop())
		assert.Equal(t, []int{1}, held.Take())
		assert.Zero(t, c.Stats().Held)
	})
}

func TestWaitReconciledDoesNotCancelReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{CancelSuperseded: true}, slow)
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, c.WaitReconciled(t.Context(), "a"), "the reconcile in flight began before")
		for _, r := range reports.Take() {
			assert.Equal(t, controller.Succeeded, r.Outcome)
			assert.Equal(t, time.Second, r.Duration)
		}
	})
}

func TestWaitReconciledReturnsAfterKeyLeavesFlight(t *testing.T) {
	for _, err := range []error{nil, retry.Permanent(errBoom)} {
		synctest.Test(t, func(t *testing.T) {
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
				Done: func(string, time.Duration) { time.Sleep(time.Second) },
			}}}
			c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, err })
			looptest.Start(t, c.Run)
			began := time.Now()
			got := c.WaitReconciled(t.Context(), "a")
			assert.Equal(t, time.Second, time.Since(began), "after the hook")
			if err == nil {
				require.NoError(t, got)
				return
			}
			require.ErrorIs(t, got, controller.ErrParked)
			assert.Equal(t, []string{"a"}, c.Parked())
		})
	}
}

func TestWaitReconciledReturnsDespiteGoexitOfHook(t *testing.T) {
	for _, hook := range []string{"Reconciled", "the function of Trace"} {
		synctest.Test(t, func(t *testing.T) {
			exit := func(controller.Report[string]) { runtime.Goexit() }
			cfg := controller.Config[string]{Logger: quiet}
			if hook == "Reconciled" {
				cfg.Hooks.Reconciled = exit
			} else {
				cfg.Hooks.Trace = func(ctx context.Context, _ string, _ []string) (context.Context, func(controller.Report[string])) {
					return ctx, exit
				}
			}
			c, err := controller.New("test", noop, cfg)
			require.NoError(t, err)
			looptest.Start(t, c.Run)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			require.NoError(t, c.WaitReconciled(ctx, "a"), hook)
			require.NoError(t, c.WaitReconciled(ctx, "a"), "%s: the worker was replaced", hook)
		})
	}
}

func TestWaitReconciledRevivesParkedKeyWithFullBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := 2
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 2}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if fails--; fails >= 0 {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		require.ErrorIs(t, c.WaitReconciled(t.Context(), "a"), controller.ErrParked)
		assert.Equal(t, []string{"a"}, c.Parked())
		reports.Take()
		fails = 1
		require.NoError(t, c.WaitReconciled(t.Context(), "a"), "the first of two attempts may fail")
		assert.Len(t, reports.Take(), 2)
		assert.Empty(t, c.Parked())
	})
}

func TestKeyFailingInResyncHasFullBudgetUnlessParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := newInformer("things", newSource(object{Key: "a"}))
		looptest.Start(t, inf.Run)
		var fails atomic.Bool
		cfg := controller.Config[string]{Resync: time.Hour, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 2 * time.Hour}}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if fails.Load() {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		synctest.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		reports.Take()
		fails.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		got := reports.Take()
		require.NotEmpty(t, got)
		assert.Equal(t, controller.Failed, got[0].Outcome)
		assert.Empty(t, c.Parked())
	})
}

// Guarantee 12: resyncs that overlap.
func TestOverlappingResyncsReviveParkedKeyOnce(t *testing.T) {
	for _, name := range []string{"paused", "key paused", "in flight", "event"} {
		bubble(t, name, func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}))
			looptest.Start(t, inf.Run)
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second}}}
			c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
				time.Sleep(time.Second)
				return controller.Result{}, errBoom
			}, controller.For(inf))
			looptest.Start(t, c.Run)
			time.Sleep(time.Minute)
			require.Equal(t, []string{"a"}, c.Parked())
			reports.Take()
			switch name {
			case "paused":
				c.Pause()
			case "key paused":
				c.PauseKey("a")
			}
			for range 3 {
				c.Inspect().Resync()
				synctest.Wait()
			}
			if name == "event" {
				c.Add("a")
			}
			c.Resume()
			c.ResumeKey("a")
			time.Sleep(time.Minute)
			assert.Len(t, reports.Take(), 3, "one budget")
			assert.Equal(t, []string{"a"}, c.Parked())
			assert.Zero(t, c.UnfinishedKeys())
			c.CheckInvariants(t)
		})
	}
}

// lent are slots that this replica owns now and then.
type lent struct{ owned bool }

func (*lent) Slot(string) int { return 0 }

func (l *lent) Begin(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, l.owned
}

func TestForeignKeyIsForgotten(t *testing.T) {
	for name, err := range map[string]error{"failure": errBoom, "conflict": store.ErrConflict} {
		bubble(t, name, func(t *testing.T) {
			slots := &lent{owned: true}
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxElapsed: time.Hour}}
			c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, err })
			c.Share(slots)
			step := func() (controller.Report[string], bool) {
				c.Add("a")
				return c.Step(t.Context(), "a")
			}
			_, ok := step()
			require.True(t, ok)
			slots.owned = false
			_, ok = step()
			require.False(t, ok)
			assert.Zero(t, c.UnfinishedKeys())
			slots.owned = true
			report, ok := step()
			require.True(t, ok)
			assert.Equal(t, 1, report.Attempt, "another replica may have worked on it since")
		})
	}
}
