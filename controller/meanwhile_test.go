package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// meanwhile is what happens to a controller while a reconcile is in flight. None of these ends the reconcile.
var meanwhile = map[string]struct {
	do   func(c *controller.Controller[string], r *looptest.Running)
	undo func(t *testing.T, c *controller.Controller[string], r *looptest.Running)

	comes   bool // the key comes back at once after undo, however the reconcile ends
	forgets bool // the key waits for longer than failures are remembered
	soon    bool // the key comes back at once after undo if it comes back by itself
}{
	"an event": {do: func(c *controller.Controller[string], _ *looptest.Running) { c.Add("a") }, comes: true},
	"an event, and the key is paused": {
		do:    func(c *controller.Controller[string], _ *looptest.Running) { c.PauseKey("a"); c.Add("a") },
		undo:  func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.ResumeKey("a") },
		comes: true, forgets: true,
	},
	"the key is paused": {
		do:   func(c *controller.Controller[string], _ *looptest.Running) { c.PauseKey("a") },
		undo: func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.ResumeKey("a") },
		soon: true, forgets: true,
	},
	"a pause": {
		do:   func(c *controller.Controller[string], _ *looptest.Running) { c.Pause() },
		undo: func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.Resume() },
		soon: true,
	},
	"an event, and a pause": {
		do:    func(c *controller.Controller[string], _ *looptest.Running) { c.Add("a"); c.Pause() },
		undo:  func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.Resume() },
		comes: true,
	},
	"a stop": {
		do: func(_ *controller.Controller[string], r *looptest.Running) { r.Cancel() },
		undo: func(t *testing.T, c *controller.Controller[string], r *looptest.Running) {
			require.NoError(t, r.Stop())
			looptest.Start(t, c.Run)
		},
		soon: true,
	},
	"a stop, and an event": {
		do: func(c *controller.Controller[string], r *looptest.Running) { r.Cancel(); synctest.Wait(); c.Add("a") },
		undo: func(t *testing.T, c *controller.Controller[string], r *looptest.Running) {
			require.NoError(t, r.Stop())
			looptest.Start(t, c.Run)
		},
		comes: true,
	},
}

// For each outcome and each event during the reconcile, the key comes back exactly when it should, with the right
// attempt number.
func TestEachOutcomeWithEachConcurrentEvent(t *testing.T) {
	for _, e := range endings {
		for name, m := range meanwhile {
			bubble(t, e.name+", "+name, func(t *testing.T) {
				entered, leave := make(chan struct{}), make(chan struct{})
				n := 0
				cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: 10 * time.Second, DrainTimeout: time.Minute}
				c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
					switch n++; n {
					case 1:
						return controller.Result{}, errBoom
					case 2:
						close(entered)
						<-leave
						return e.end(ctx, key)
					}
					return controller.Result{}, nil
				})
				r := looptest.Start(t, c.Run)
				c.Add("a")
				<-entered
				m.do(c, r)
				synctest.Wait()
				began := time.Now()
				close(leave)
				synctest.Wait()
				for len(reports.All()) < 2 { // some take their time
					time.Sleep(time.Second)
					synctest.Wait()
				}
				took := time.Since(began)
				assert.Equal(t, e.outcome, reports.All()[1].Outcome)
				if m.undo != nil { // the time until then passes in any case
					time.Sleep(48 * time.Hour)
					synctest.Wait()
					require.Len(t, reports.All(), 2)
					m.undo(t, c, r)
				}
				synctest.Wait()
				all := reports.Take()
				switch now := m.comes || m.soon && e.again > 0; {
				case now:
					require.Len(t, all, 3)
				case e.again > 0:
					require.Len(t, all, 2)
					time.Sleep(e.again - (time.Since(began) - took) - 1)
					synctest.Wait()
					require.Zero(t, reports.Len())
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					all = append(all, reports.Take()...)
					require.Len(t, all, 3)
				default:
					require.Len(t, all, 2)
				}
				if len(all) == 3 {
					want := map[controller.Outcome]int{controller.Succeeded: 1, controller.Parked: 1, controller.Unfinished: 2}[e.outcome]
					if want == 0 {
						want = 3
					}
					if m.forgets {
						want = 1
					}
					assert.Equal(t, want, all[2].Attempt)
				}
				parked := []string{}
				if e.outcome == controller.Parked && !m.comes {
					parked = []string{"a"}
				}
				assert.Equal(t, parked, c.Parked(), "an event revives a key with a full budget")
				time.Sleep(48 * time.Hour)
				synctest.Wait()
				assert.Zero(t, reports.Len(), "it comes back once")
				c.CheckInvariants(t)
			})
		}
	}
}

// When the drain times out, the reconcile in flight is canceled.
func TestEachOutcomeAfterDrainTimeout(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			n := 0
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, DrainTimeout: time.Minute}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				switch n++; n {
				case 1:
					return controller.Result{}, errBoom
				case 2:
					<-ctx.Done()
					return e.end(ctx, key)
				}
				return controller.Result{}, nil
			})
			r := looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(8 * time.Second)
			stopped := r.Stop()
			all := reports.Take()
			require.Len(t, all, 2)
			assert.Equal(t, e.stopped, all[1].Outcome)
			comes := e.again > 0
			if e.stopped == controller.Canceled {
				comes = true
				require.ErrorIs(t, all[1].Err, controller.ErrDrainTimeout)
				require.ErrorIs(t, stopped, controller.ErrDrainTimeout)
			}
			looptest.Start(t, c.Run)
			synctest.Wait()
			if all = reports.Take(); comes {
				require.Len(t, all, 1)
				if e.stopped == controller.Canceled {
					assert.Equal(t, 2, all[0].Attempt, "a stop is not a failed attempt")
				}
			} else {
				require.Empty(t, all)
			}
			time.Sleep(48 * time.Hour)
			assert.Empty(t, reports.Take())
			c.CheckInvariants(t)
		})
	}
}

func TestConsecutiveConflictsBecomeFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := &limiter{delay: 7 * time.Second}
		var next error
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: limit}}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, next
		})
		looptest.Start(t, c.Run)
		conflict := fmt.Errorf("put: %w", errConflict)
		next = conflict
		c.Add("a")
		time.Sleep(2 * time.Second)
		all := reports.Take()
		require.Len(t, all, 9)
		for i, r := range all[:8] {
			assert.Equal(t, controller.Unfinished, r.Outcome)
			assert.Equal(t, 5*time.Millisecond<<i, r.Retry, "a cache that is stale for longer is polled less often")
			assert.Equal(t, 1, r.Attempt)
		}
		assert.Equal(t, controller.Failed, all[8].Outcome)
		assert.Equal(t, 7*time.Second, all[8].Retry)
		step := func(err error) controller.Report[string] {
			next = err
			c.Add("a")
			synctest.Wait()
			all := reports.Take()
			require.Len(t, all, 1)
			return all[0]
		}
		assert.Equal(t, controller.Failed, step(conflict).Outcome, "it keeps failing")
		assert.Equal(t, controller.Failed, step(errBoom).Outcome)
		assert.Equal(t, controller.Unfinished, step(conflict).Outcome, "another failure starts a new streak")
		assert.Equal(t, 10*time.Millisecond, step(conflict).Retry)
		assert.Equal(t, controller.Unfinished, step(retry.NotYet(conflict, time.Hour)).Outcome)
		assert.Equal(t, 5*time.Millisecond, step(conflict).Retry, "and a wait succeeds")
		assert.Equal(t, 10*time.Millisecond, step(conflict).Retry)
		assert.Equal(t, controller.Succeeded, step(nil).Outcome)
		assert.Equal(t, 5*time.Millisecond, step(conflict).Retry, "and a success")
		assert.Equal(t, 1, step(conflict).Attempt)
		c.CheckInvariants(t)
	})
}

func TestConflictMayCarryItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, retry.After(errConflict, time.Minute)
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		report := reports.Take()[0]
		assert.Equal(t, controller.Unfinished, report.Outcome)
		assert.Equal(t, time.Minute, report.Retry)
	})
}

func TestLongUnfinishedWorkIsParked(t *testing.T) {
	for name, test := range map[string]struct {
		errs []error // of the reconciles, the last one again and again
		want []time.Duration
		done controller.Outcome
	}{
		"for an event": {[]error{retry.NotYet(errBoom, 0)}, []time.Duration{0, time.Minute}, controller.Parked},
		"now and then": {[]error{retry.NotYet(errBoom, 25*time.Second)},
			[]time.Duration{0, 25 * time.Second, 50 * time.Second, time.Minute}, controller.Parked},
		"after a failure": {[]error{errBoom, retry.NotYet(errBoom, time.Hour)}, []time.Duration{0, 7 * time.Second, time.Minute}, controller.Parked},
		"a failure after it": {[]error{retry.NotYet(errBoom, 58*time.Second), errBoom, retry.NotYet(errBoom, 0)},
			[]time.Duration{0, 58 * time.Second, 65 * time.Second}, controller.Parked},
		"done in time": {[]error{retry.NotYet(errBoom, 0), nil}, []time.Duration{0, time.Minute}, controller.Succeeded},
		"permanent":    {[]error{retry.NotYet(errBoom, time.Second), retry.Permanent(errBoom)}, []time.Duration{0, time.Second}, controller.Parked},
	} {
		bubble(t, name, func(t *testing.T) {
			var at []time.Duration
			began := time.Now()
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}, MaxElapsed: time.Minute}}
			c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
				at = append(at, time.Since(began))
				return controller.Result{}, test.errs[min(len(at), len(test.errs))-1]
			})
			looptest.Start(t, c.Run)
			for range 2 { // the second time with a whole budget
				c.Add("a")
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				assert.Equal(t, test.want, at)
				all := reports.Take()
				assert.Equal(t, test.done, all[len(all)-1].Outcome)
				assert.Equal(t, test.done == controller.Parked, len(c.Parked()) == 1)
				assert.Zero(t, c.Streaks(), "no state remains for a finished key")
				at, began = nil, time.Now()
				c.CheckInvariants(t)
			}
		})
	}
}

func TestWaitReconciledWaitsForUnfinishedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		c, _ := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if ready++; ready < 8 {
				return controller.Result{}, retry.NotYet(fmt.Errorf("%d of 8 databases are ready", ready), time.Minute)
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		began := time.Now()
		require.NoError(t, c.WaitReconciled(t.Context(), "a"))
		assert.Equal(t, 7*time.Minute, time.Since(began))
		assert.Equal(t, 8, ready)
	})
}

func TestNotYetErrorsParkNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Bool
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 2}, Logger: looptest.Logger(failOnWrite{t})}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if !free.Load() {
				return controller.Result{}, fmt.Errorf("put: %w", retry.NotYet(errors.New("429 Too Many Requests"), time.Minute))
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(24*time.Hour - 1)
		synctest.Wait()
		assert.Len(t, reports.Take(), 24*60)
		assert.Empty(t, c.Parked())
		assert.Equal(t, 1, c.Stats().Queue.Delayed)
		assert.Equal(t, workqueue.Delayed, c.Snapshot()[0].State)
		assert.Equal(t, "put: 429 Too Many Requests", c.Snapshot()[0].Reasons[0].Text, "and reports why it waits")
		free.Store(true)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome)
	})
}

// failOnWrite fails the test when something is logged.
type failOnWrite struct{ t *testing.T }

func (w failOnWrite) Write(p []byte) (int, error) {
	w.t.Errorf("logged: %s", p)
	return len(p), nil
}
