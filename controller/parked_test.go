package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyWithSpentBudgetIsParked(t *testing.T) {
	for _, e := range endings {
		for _, budget := range []struct {
			name string
			cfg  controller.Config[string]
		}{
			{"attempts", controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3}}},
			{"elapsed", controller.Config[string]{Queue: workqueue.Config[string]{MaxElapsed: 14 * time.Second}}},
		} {
			bubble(t, budget.name+" and "+e.name, func(t *testing.T) {
				delays := &limiter{delay: 7 * time.Second}
				budget.cfg.Timeout, budget.cfg.Queue.RateLimiter = time.Minute, delays
				n := 0
				c, reports := newController(t, budget.cfg, func(ctx context.Context, key string) (controller.Result, error) {
					switch n++; n {
					case 1, 2:
						return controller.Result{}, errBoom
					case 3:
						return e.end(ctx, key)
					}
					return controller.Result{}, nil
				})
				looptest.Start(t, c.Run)
				c.Add("a")
				time.Sleep(2 * time.Minute)
				all := reports.Take()
				last := all[2]
				assert.Equal(t, 3, last.Attempt)
				if e.outcome == controller.Succeeded || e.outcome == controller.Unfinished && budget.cfg.Queue.MaxElapsed == 0 {
					assert.Equal(t, e.outcome, last.Outcome, "it does not spend attempts")
					assert.Empty(t, c.Parked())
					return
				}
				require.Len(t, all, 3)
				assert.Equal(t, controller.Parked, last.Outcome)
				require.ErrorIs(t, last.Err, e.err)
				assert.Zero(t, last.Retry)
				assert.EqualValues(t, 1, delays.forgets.Load(), "the next backoff starts small")
				assert.EqualValues(t, 1, c.Stats().Outcomes[controller.Parked])
				if e.outcome != controller.Parked {
					assert.Zero(t, c.Stats().Outcomes[e.outcome]-map[bool]uint64{true: 2}[e.outcome == controller.Failed], "it counts once")
				}
				assert.Equal(t, []string{"a"}, c.Parked())
				assert.Equal(t, workqueue.Stats{Parked: 1}, c.Stats().Queue)

				c.Add("a")
				synctest.Wait()
				revived := reports.Take()
				require.Len(t, revived, 1, "an event revives it")
				assert.Equal(t, 1, revived[0].Attempt, "with a full budget")
				assert.Empty(t, c.Parked())
				c.CheckInvariants(t)
			})
		}
	}
}

func TestParkedKeysSurviveRunsUntilRetriedOrDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}, func(context.Context, string) (controller.Result, error) {
			if fail {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"b", "a", "c"} {
			c.Add(key)
		}
		synctest.Wait()
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"b", "a", "c"}, c.Parked(), "the earliest parked first")
		for _, k := range c.Snapshot() {
			assert.Equal(t, "boom", k.Reasons[0].Text)
		}
		reports.Take()

		fail = false
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Empty(t, reports.Take(), "a run does not revive them")
		assert.True(t, c.Drop("b"))
		c.Add("a")
		assert.False(t, c.Drop("a"))
		synctest.Wait()
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
		assert.Equal(t, []string{"c"}, c.Parked())
	})
}

func TestKeyAddedDuringLastAttemptIsNotParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *controller.Controller[string]
		n := 0
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}, func(context.Context, string) (controller.Result, error) {
			if n++; n == 1 {
				c.Add("a")
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		all := reports.Take()
		assert.Equal(t, controller.Parked, all[0].Outcome)
		require.Len(t, all, 2)
		assert.Equal(t, 1, all[1].Attempt)
		assert.Empty(t, c.Parked())
	})
}

func TestRequeuesDoNotSpendBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}, func(context.Context, string) (controller.Result, error) {
			if n++; n < 5 {
				return controller.Result{RequeueAfter: time.Second}, nil
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 5)
		assert.Empty(t, c.Parked())
	})
}

func TestHookMayAddParkedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *controller.Controller[string]
		n := 0
		c, err := controller.New("test", func(context.Context, string) (controller.Result, error) {
			if n++; n == 1 {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		}, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: quiet, Hooks: controller.Hooks[string]{
			Reconciled: func(r controller.Report[string]) {
				if r.Outcome == controller.Parked {
					assert.Empty(t, c.Parked(), "it is still in flight")
					assert.False(t, c.Drop(r.Key))
					c.Add(r.Key)
				}
			},
		}})
		require.NoError(t, err)
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		assert.Equal(t, 2, n)
		assert.Empty(t, c.Parked())
	})
}
