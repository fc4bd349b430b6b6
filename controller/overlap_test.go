package controller_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// countHeld makes cfg record how many keys c holds each time that the queue gets a key.
func countHeld(cfg *controller.Config[string], c **controller.Controller[string]) *looptest.Log[int] {
	held := &looptest.Log[int]{}
	cfg.Queue.Hooks.Added = func(string) { held.Add((*c).Stats().Held) }
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
		seen := must(expectations.NewVersions(expectations.Config[string]{}))
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

// Guarantee 12: a resync that meets the attempt of an earlier one.
func TestParkedKeyHasOneAttemptPerResync(t *testing.T) {
	for name, attempts := range map[string]int{"paused": 1, "key paused": 1, "in flight": 2, "event": 3} {
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
			assert.Len(t, reports.Take(), attempts)
			assert.Equal(t, []string{"a"}, c.Parked())
			assert.Zero(t, c.Streaks())
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
			assert.Zero(t, c.Streaks())
			slots.owned = true
			report, ok := step()
			require.True(t, ok)
			assert.Equal(t, 1, report.Attempt, "another replica may have worked on it since")
		})
	}
}
