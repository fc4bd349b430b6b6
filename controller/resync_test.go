package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
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
		c.Add("b")
		synctest.Wait()
		assert.Equal(t, "b", c.Ready()[0], "and it waits behind new events")
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
func TestResyncGivesParkedKeyOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"})
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var end atomic.Value
		end.Store("fail")
		cfg := controller.Config[string]{Resync: time.Hour, Queue: workqueue.Config[string]{MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second}}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			switch end.Load() {
			case "fail":
				return controller.Result{}, errBoom
			case "slow":
				time.Sleep(time.Second)
				return controller.Result{}, errBoom
			case "not yet":
				return controller.Result{}, retry.NotYet(errBoom, time.Second)
			}
			return controller.Result{}, nil
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		c.Add("unknown to the watch")
		period := func() (outcomes []controller.Outcome) {
			time.Sleep(time.Hour)
			synctest.Wait()
			for _, r := range reports.Take() {
				if r.Key == "a" {
					outcomes = append(outcomes, r.Outcome)
				}
			}
			c.CheckInvariants(t)
			return outcomes
		}
		failed, parked := controller.Failed, controller.Parked
		synctest.Wait()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		reports.Take() // a resync may have come while the key had attempts left
		period()
		require.ElementsMatch(t, []string{"a", "unknown to the watch"}, c.Parked())
		assert.Equal(t, []controller.Outcome{parked}, period(), "one attempt")
		assert.Equal(t, []controller.Outcome{parked}, period(), "in each period")

		c.Add("a")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		all := keysOf(reports.Take())
		assert.GreaterOrEqual(t, len(all), 3, "a full budget")
		period()

		end.Store("not yet")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Empty(t, c.Parked(), "unfinished work is not parked")
		end.Store("fail")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"a", "unknown to the watch"}, c.Parked(), "but it does not have a full budget either")
		reports.Take()

		end.Store("slow")
		for {
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			if in := c.Stats().Queue.InProcess; in > 0 && !slices.Contains(c.Parked(), "a") {
				break
			}
		}
		c.Add("a") // during its attempt
		time.Sleep(10 * time.Second)
		synctest.Wait()
		n := 0
		for _, r := range reports.Take() {
			if r.Key == "a" && r.Outcome == failed {
				n++
			}
		}
		assert.GreaterOrEqual(t, n, 2, "an event during the attempt resets the budget")

		end.Store("good")
		period()
		period() // the turns of a period are those of keys that were parked when it began
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
