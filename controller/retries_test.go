package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// A key may be outside the queue for a day. That is no success, so its attempts are still counted.
func TestAttemptsAreCountedWhileKeyIsOutsideTheQueue(t *testing.T) {
	const day = 24 * time.Hour
	type world struct {
		*controller.Controller[string]
		expected *expectations.Counted[string]
		run      *looptest.Running

		mu     sync.Mutex // guards the fields below
		ends   []error    // of the next reconciles, before they fail
		last   controller.Info
		gaveUp int
	}
	locked := func(w *world, f func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		f()
	}
	aways := map[string]func(t *testing.T, w *world){
		"paused": func(_ *testing.T, w *world) {
			w.PauseKey("a")
			time.Sleep(day)
			synctest.Wait()
			w.ResumeKey("a")
		},
		"held by expectations": func(_ *testing.T, w *world) {
			w.expected.ExpectCreations("a", 1)
			time.Sleep(day)
			synctest.Wait()
			w.expected.CreationObserved("a")
		},
		"unfinished": func(_ *testing.T, w *world) {
			locked(w, func() { w.ends = []error{retry.NotYet(errBoom, 0)} })
			time.Sleep(day)
			synctest.Wait()
			w.Add("a")
		},
		"between two runs": func(t *testing.T, w *world) {
			require.NoError(t, w.run.Stop())
			time.Sleep(day)
			synctest.Wait()
			w.run = looptest.Start(t, w.Run)
		},
		"between two runs, while the controller is paused": func(t *testing.T, w *world) {
			w.Pause()
			require.NoError(t, w.run.Stop())
			time.Sleep(day)
			synctest.Wait()
			w.run = looptest.Start(t, w.Run)
			time.Sleep(day)
			synctest.Wait()
			w.Resume()
		},
	}
	for name, away := range aways {
		for limit, queue := range map[string]workqueue.Config[string]{"attempts": {MaxAttempts: 3}, "elapsed": {MaxElapsed: day}} {
			if name == "unfinished" && limit == "elapsed" {
				continue // no unfinished key waits past that time
			}
			bubble(t, name+", "+limit, func(t *testing.T) {
				w := &world{expected: expectations.NewCounted(expectations.Config[string]{TTL: 10 * day})}
				queue.RateLimiter = &limiter{delay: time.Minute}
				cfg := controller.Config[string]{Queue: queue, Expectations: []controller.Expectations[string]{w.expected}}
				cfg.GaveUp = func(context.Context, string, error) error {
					locked(w, func() { w.gaveUp++ })
					return nil
				}
				c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
					err := errBoom
					locked(w, func() {
						w.last, _ = controller.FromContext(ctx)
						if len(w.ends) > 0 {
							err, w.ends = w.ends[0], w.ends[1:]
						}
					})
					return controller.Result{}, err
				})
				w.Controller = c
				w.run = looptest.Start(t, c.Run)
				began := time.Now()
				c.Add("a")
				synctest.Wait()
				away(t, w)
				synctest.Wait()
				locked(w, func() {
					assert.Equal(t, 2, w.last.Attempt)
					assert.Equal(t, began, w.last.FirstFailure)
					if limit == "attempts" {
						assert.Zero(t, w.gaveUp)
					}
				})
				if limit == "attempts" {
					time.Sleep(time.Minute)
					synctest.Wait()
					assert.Equal(t, 3, w.last.Attempt)
				}
				assert.Equal(t, 1, w.gaveUp, "once")
				assert.Equal(t, []string{"a"}, c.Parked())
				assert.NotEmpty(t, reports.Take())
				require.NoError(t, w.run.Stop())
				c.CheckInvariants(t)
			})
		}
	}
}

func TestControllerDecidesHowLongFailuresAreRemembered(t *testing.T) {
	for _, d := range []time.Duration{-1, time.Hour} {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{RememberFailures: d}}
		_, err := controller.New("a", noop, cfg)
		require.EqualError(t, err, fmt.Sprintf(`controller: new "a": Config.Queue.RememberFailures is %v, must be 0: `+
			"a controller remembers the failures of a key until it succeeds or is parked", d))
	}
}

// brokenLimiter is a limiter whose methods panic.
type brokenLimiter struct{}

func (brokenLimiter) When(string) time.Duration { panic("boom") }
func (brokenLimiter) Forget(string)             { panic("boom") }
func (brokenLimiter) NumRequeues(string) int    { panic("boom") }

func TestPanicOfRateLimiterCostsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log looptest.Text
		words := 0
		cfg := controller.Config[string]{Logger: looptest.Logger(&log), Queue: workqueue.Config[string]{RateLimiter: brokenLimiter{}, MaxAttempts: 2}}
		cfg.GaveUp = func(context.Context, string, error) error {
			if words++; words == 1 {
				return errBoom // the key is tried again after a backoff
			}
			return nil
		}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, errBoom })
		r := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		all := reports.Take()
		require.Len(t, all, 3)
		assert.Equal(t, 5*time.Millisecond, all[0].Retry, "that of the default")
		assert.Equal(t, 10*time.Millisecond, all[1].Retry)
		assert.Equal(t, controller.Parked, all[2].Outcome)
		assert.Equal(t, 2, strings.Count(log.String(), `msg="Config.Queue.RateLimiter panicked"`))
		assert.Contains(t, log.String(), "retries_test.go", "the stack")
		require.NoError(t, r.Stop())
		c.CheckInvariants(t)
	})
}

// The outcome table applies to a queue too: each ending that needs no context and no Result plays on both.
func TestQueueRunFollowsTheOutcomeTable(t *testing.T) {
	played := 0
	for _, e := range endings {
		if strings.Contains(e.name, "timeout") || strings.Contains(e.name, "of the context") || e.outcome == controller.Succeeded && e.again > 0 {
			continue
		}
		played++
		bubble(t, e.name, func(t *testing.T) {
			delays := &limiter{delay: 7 * time.Second}
			q, err := workqueue.New(workqueue.Config[string]{RateLimiter: delays, Logger: quiet})
			require.NoError(t, err)
			var at []time.Duration
			var attempts []int
			began := time.Now()
			r := looptest.Start(t, func(ctx context.Context) error {
				return q.Run(ctx, 1, func(ctx context.Context, item workqueue.Item[string]) error {
					at, attempts = append(at, time.Since(began)), append(attempts, item.Attempt)
					if len(at) > 1 {
						return nil
					}
					defer func() { began = time.Now() }()
					_, err := e.end(ctx, item.Key)
					return err
				})
			})
			q.Add("a")
			time.Sleep(2 * time.Second)
			synctest.Wait()
			assert.Equal(t, e.whens, delays.whens.Load())
			assert.Equal(t, e.outcome == controller.Parked, len(q.Parked()) == 1)
			time.Sleep(48 * time.Hour)
			synctest.Wait()
			require.NoError(t, r.Stop())
			switch {
			case e.again == 0:
				assert.Len(t, at, 1)
			case e.outcome == controller.Unfinished:
				assert.Equal(t, []time.Duration{0, e.again}, at)
				assert.Equal(t, []int{1, 1}, attempts)
			default:
				assert.Equal(t, []time.Duration{0, e.again}, at)
				assert.Equal(t, []int{1, 2}, attempts)
			}

			// After a stop, as after that of a controller.
			ctx, cancel := context.WithCancelCause(t.Context())
			q.DropParked("a")
			q.Add("a")
			require.NoError(t, q.Run(ctx, 1, func(ctx context.Context, item workqueue.Item[string]) error {
				cancel(errors.New("stop"))
				_, err := e.end(ctx, item.Key)
				return err
			}))
			switch e.stopped {
			case controller.Canceled:
				assert.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
				assert.Zero(t, q.NumRequeues("a"))
			case controller.Succeeded:
				assert.Equal(t, workqueue.Stats{}, q.Stats())
			default:
				assert.Equal(t, controller.Panicked, e.stopped)
				assert.Equal(t, 1, q.NumRequeues("a"))
			}
		})
	}
	require.Greater(t, played, 20)
}

// A failure with its own delay counts toward the next backoff, with the default limiter and with a configured one.
func TestBackoffCountsAllFailuresOfKey(t *testing.T) {
	for name, limiter := range map[string]workqueue.RateLimiter[string]{
		"nil": nil, "explicit": workqueue.DefaultControllerRateLimiter[string](),
	} {
		bubble(t, name, func(t *testing.T) {
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: limiter}},
				func(ctx context.Context, _ string) (controller.Result, error) {
					if info, _ := controller.FromContext(ctx); info.Attempt < 4 {
						return controller.Result{}, delayed{time.Hour}
					}
					return controller.Result{}, errBoom
				})
			looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			all := reports.Take()
			assert.Len(t, all, 4)
			assert.Equal(t, 40*time.Millisecond, all[3].Retry)
		})
	}
}

// This is the usual way to use package expectations. The key's expiry has passed when the reconcile returns.
func TestKeyComesBackIfExpectationsExpireDuringReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exp := expectations.NewCounted(expectations.Config[string]{TTL: time.Minute, OnExpired: func(string) {}})
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if at, waiting := exp.Expires(key); waiting {
				time.Sleep(time.Until(at) + time.Millisecond)
				return controller.Result{}, retry.NotYet(errBoom, time.Until(at))
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		exp.ExpectCreations("a", 1)
		c.Add("a")
		time.Sleep(time.Hour)
		assert.Len(t, reports.Take(), 2, "the awaited event was lost, so nothing else adds the key")
	})
}

// The requested time has passed when the reconcile returns.
func TestKeyRequeuedForPastTimeComesBackImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Second)
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if time.Now().After(at) {
				return controller.Result{}, nil
			}
			time.Sleep(time.Until(at) + time.Millisecond)
			return controller.Result{RequeueAfter: time.Until(at)}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(2 * time.Second)
		assert.Len(t, reports.Take(), 2)
	})
}

// meanwhile is what happens to a controller while a reconcile is in flight. None of these ends the reconcile.
var meanwhile = map[string]struct {
	do   func(c *controller.Controller[string], r *looptest.Running)
	undo func(t *testing.T, c *controller.Controller[string], r *looptest.Running)

	comes bool // the key comes back at once after undo, however the reconcile ends
	soon  bool // the key comes back at once after undo if it comes back by itself
}{
	"an event": {do: func(c *controller.Controller[string], _ *looptest.Running) { c.Add("a") }, comes: true},
	"an event, and the key is paused": {
		do:    func(c *controller.Controller[string], _ *looptest.Running) { c.PauseKey("a"); c.Add("a") },
		undo:  func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.ResumeKey("a") },
		comes: true,
	},
	"the key is paused": {
		do:   func(c *controller.Controller[string], _ *looptest.Running) { c.PauseKey("a") },
		undo: func(_ *testing.T, c *controller.Controller[string], _ *looptest.Running) { c.ResumeKey("a") },
		soon: true,
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
		assert.Equal(t, 5*time.Millisecond, step(conflict).Retry, "an event makes the wait no longer")
		time.Sleep(5 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 10*time.Millisecond, reports.Take()[0].Retry)
		time.Sleep(4 * time.Millisecond)
		assert.Equal(t, 6*time.Millisecond, step(conflict).Retry)
		assert.Equal(t, controller.Unfinished, step(retry.NotYet(conflict, time.Hour)).Outcome)
		assert.Equal(t, 5*time.Millisecond, step(conflict).Retry, "and a wait succeeds")
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
				assert.Zero(t, c.UnfinishedKeys(), "no state remains for a finished key")
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

// After an outage of length L, a key succeeds within L and twice the first delay, at any rate of events, and its budget of attempts is not
// spent by them. That holds for failures, conflicts, panics, and timeouts.
func TestEventsDuringOutageDoNotLengthenWait(t *testing.T) {
	const first = 5 * time.Millisecond
	kinds := map[string]func(n int) error{
		"failures":  func(int) error { return errBoom },
		"conflicts": func(int) error { return errConflict },
		"both":      func(n int) error { return []error{errBoom, errConflict}[n%2] },
		"not yet":   func(n int) error { return []error{errBoom, retry.NotYet(errBoom, time.Millisecond)}[n%2] },
		"panics":    func(int) error { panic(errBoom) },
	}
	for kind, fail := range kinds {
		for _, outage := range []time.Duration{3 * time.Second, time.Minute} {
			for _, events := range []int{0, 20, 1000} {
				bubble(t, fmt.Sprintf("%s/%v/%d events", kind, outage, events), func(t *testing.T) {
					end := time.Now().Add(outage)
					n := 0
					var recovered time.Time
					c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 40}},
						func(context.Context, string) (controller.Result, error) {
							if n++; time.Now().Before(end) {
								return controller.Result{}, fail(n)
							}
							if recovered.IsZero() {
								recovered = time.Now()
							}
							return controller.Result{}, nil
						})
					looptest.Start(t, c.Run)
					c.Add("a")
					for range events {
						time.Sleep(outage / time.Duration(events+1))
						c.Add("a")
					}
					time.Sleep(time.Until(end) + outage + 2*first)
					synctest.Wait()
					all := reports.All()
					require.False(t, recovered.IsZero(), "%d attempts; the last: %+v", len(all), all[len(all)-1])
					for _, r := range all {
						assert.NotEqual(t, controller.Parked, r.Outcome)
						assert.LessOrEqual(t, r.Attempt, 40)
					}
				})
			}
		}
	}
}

// A site that creates its 25 children through an API that is down for a while, which the informer of the children reports as they come up.
func TestChildrenComingUpDuringOutageDoNotDelayParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const children, outage = 25, 3 * time.Second
		db := store.NewMemory(store.MemoryConfig{})
		sites, units := must(store.Open[string](db, "Site", store.Config[string]{})), must(store.Open[string](db, "Unit", store.Config[string]{}))
		seen, seenUnits := must(informer.New(sites, store.Key, informer.Config{})), must(informer.New(units, store.Key, informer.Config{}))
		looptest.Start(t, seen.Run)
		looptest.Start(t, seenUnits.Run)
		end := time.Now().Add(outage)
		var recovered atomic.Int64
		c, reports := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
			site, ok := seen.Get(key)
			if !ok {
				return controller.Result{}, nil
			}
			for i := range children {
				name := fmt.Sprintf("%s-%d", key, i)
				if _, ok := seenUnits.Get(name); ok {
					continue
				}
				_, err := units.Create(ctx, store.Object[string]{Key: name, Value: "starting", Owners: []store.OwnerRef{{Ref: site.Ref(), Controller: true}}})
				if err != nil && !errors.Is(err, store.ErrExists) {
					return controller.Result{}, err
				}
			}
			if time.Now().Before(end) {
				return controller.Result{}, errBoom // the load balancer's API
			}
			recovered.CompareAndSwap(0, int64(time.Since(end))+1)
			return controller.Result{}, nil
		}, controller.For(seen), controller.Owns(seenUnits, "Site"))
		looptest.Start(t, c.Run)
		_ = must(sites.Create(t.Context(), store.Object[string]{Key: "berlin"}))
		for i := range children { // one after the other comes up
			time.Sleep(outage / (children + 1))
			unit := must(units.Get(t.Context(), fmt.Sprintf("berlin-%d", i)))
			unit.Value = "up"
			_ = must(units.Update(t.Context(), unit))
		}
		time.Sleep(time.Until(end) + outage)
		synctest.Wait()
		require.NotZero(t, recovered.Load(), "%+v", reports.All()[reports.Len()-1])
		assert.Greater(t, reports.Len(), children, "each child brought an attempt")
	})
}

// Attempts that events bring do not spend the budget, and the last report says when the retry comes.
func TestEventsDoNotSpendMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 2, RateLimiter: &limiter{delay: time.Minute}}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, errBoom })
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		require.Equal(t, time.Minute, reports.Take()[0].Retry, "one attempt is left")
		for i := range 100 {
			time.Sleep(10 * time.Millisecond)
			c.Add("a")
			synctest.Wait()
			r := reports.Take()[0]
			require.Equal(t, controller.Failed, r.Outcome)
			require.Equal(t, 2, r.Attempt)
			require.Equal(t, time.Minute-time.Duration(i+1)*10*time.Millisecond, r.Retry)
		}
		time.Sleep(time.Minute - time.Second - 1)
		synctest.Wait()
		require.Zero(t, reports.Len())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		r := reports.Take()[0]
		assert.Equal(t, 2, r.Attempt)
		assert.Equal(t, controller.Parked, r.Outcome)
	})
}
