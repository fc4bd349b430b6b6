package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
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
		assert.True(t, c.Inspect().Forget("b"))
		c.Add("a")
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

func TestParkedKeyIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fixed bool
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			if fixed {
				return controller.Result{}, nil
			}
			return controller.Result{}, retry.Permanent(errBoom)
		})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"b", "a", "c", "d"} {
			c.Add(key)
			synctest.Wait()
		}
		assert.Equal(t, []string{"b", "a", "c", "d"}, c.Parked(), "the earliest parked first")
		c.Add("b")
		synctest.Wait()
		assert.Equal(t, []string{"a", "c", "d", "b"}, c.Parked(), "given up again")
		_ = r.Stop()
		reports.Take()
		fixed = true
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Empty(t, reports.Take(), "a run does not revive them")
		c.Add("a")
		c.Inspect().Forget("c")
		assert.NotContains(t, c.Parked(), "c")
		c.Add("d")
		synctest.Wait()
		assert.Equal(t, []string{"a", "d"}, keysOf(reports.Take()))
		assert.Equal(t, []string{"b"}, c.Parked())
	})
}

func TestGaveUpRunsForEveryParkedKey(t *testing.T) {
	for _, e := range endings {
		for name, budget := range map[string]workqueue.Config[string]{
			"no budget": {}, "attempts": {MaxAttempts: 1}, "elapsed": {MaxElapsed: 5 * time.Second},
		} {
			bubble(t, e.name+", "+name, func(t *testing.T) {
				var c *controller.Controller[string]
				var causes []error
				cfg := controller.Config[string]{Queue: budget, Timeout: 10 * time.Second}
				cfg.Queue.RateLimiter = &limiter{delay: 7 * time.Second}
				cfg.GaveUp = func(ctx context.Context, key string, err error) error {
					info, ok := controller.FromContext(ctx)
					assert.True(t, ok)
					assert.Equal(t, "test", info.Controller)
					require.NoError(t, ctx.Err(), "however the reconcile ended")
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, 10*time.Second, time.Until(deadline))
					assert.Equal(t, "a", key)
					assert.Empty(t, c.Parked(), "it is still in flight")
					assert.Equal(t, 1, c.Stats().Queue.InProcess)
					causes = append(causes, err)
					return nil
				}
				c, reports := newController(t, cfg, e.end)
				looptest.Start(t, c.Run)
				c.Add("a")
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				all := reports.Take()
				last := all[len(all)-1]
				if last.Outcome != controller.Parked {
					assert.Empty(t, causes)
					assert.Empty(t, c.Parked())
					return
				}
				assert.Equal(t, []string{"a"}, c.Parked())
				assert.Equal(t, []error{last.Err}, causes, "it gets the cause, once")
				require.ErrorIs(t, last.Err, e.err)
				assert.EqualValues(t, 1, c.Stats().Outcomes[controller.Parked])
				c.CheckInvariants(t)
			})
		}
	}
}

func TestKeyIsParkedAfterGaveUpSucceeds(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context) error{
		"an error":   func(context.Context) error { return errBoom },
		"a conflict": func(context.Context) error { return errConflict },
		"permanent":  func(context.Context) error { return retry.Permanent(errBoom) },
		"a panic":    func(context.Context) error { panic(errBoom) },
		"Goexit":     func(context.Context) error { runtime.Goexit(); return nil },
		"a hang":     func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"a bad error": func(context.Context) error {
			var err *nilError
			return err
		},
	} {
		for why, end := range map[string]error{"permanent": retry.Permanent(errors.New("no")), "spent": errors.New("no")} {
			bubble(t, name+", "+why, func(t *testing.T) {
				words, logged := 0, &looptest.Text{}
				cfg := controller.Config[string]{
					Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}, MaxAttempts: 1}, Timeout: time.Second,
					Logger: looptest.Logger(logged),
				}
				cfg.GaveUp = func(ctx context.Context, _ string, err error) error {
					require.ErrorContains(t, err, "no")
					if words++; words < 3 {
						return fail(ctx)
					}
					return nil
				}
				c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
					return controller.Result{}, end
				})
				looptest.Start(t, c.Run)
				c.Add("a")
				for i := range 2 {
					for synctest.Wait(); reports.Len() == 0; synctest.Wait() {
						time.Sleep(time.Second)
					}
					all := reports.Take()
					require.Len(t, all, 1)
					if name == "Goexit" {
						assert.Equal(t, controller.Panicked, all[0].Outcome)
					} else {
						assert.Equal(t, controller.Failed, all[0].Outcome)
						require.ErrorContains(t, all[0].Err, "no; GaveUp: ")
					}
					assert.Equal(t, 1, all[0].Attempt, "it is not an attempt")
					assert.Equal(t, 7*time.Second, all[0].Retry)
					assert.Empty(t, c.Parked())
					assert.Equal(t, i+1, words)
					time.Sleep(7*time.Second - 1)
					synctest.Wait()
					assert.Zero(t, reports.Len())
					time.Sleep(time.Nanosecond)
				}
				synctest.Wait()
				assert.Equal(t, controller.Parked, reports.Take()[0].Outcome)
				assert.Equal(t, []string{"a"}, c.Parked())
				time.Sleep(time.Hour)
				assert.Empty(t, reports.Take())
				assert.Equal(t, 3, words)
				if name == "a panic" {
					assert.Contains(t, logged.String(), "parked_test.go", "the stack")
				}
				c.CheckInvariants(t)
			})
		}
	}
}

func TestEventDuringGaveUpRevivesKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *controller.Controller[string]
		n := 0
		cfg := controller.Config[string]{GaveUp: func(context.Context, string, error) error { c.Add("a"); return nil }}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if n++; n == 1 {
				return controller.Result{}, retry.Permanent(errBoom)
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		all := reports.Take()
		require.Len(t, all, 2)
		assert.Equal(t, controller.Parked, all[0].Outcome)
		assert.Equal(t, controller.Succeeded, all[1].Outcome)
		assert.Empty(t, c.Parked())
	})
}

func TestInterruptedGaveUpIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := 0
		cfg := controller.Config[string]{DrainTimeout: time.Minute, GaveUp: func(ctx context.Context, _ string, _ error) error {
			if words++; words == 1 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, retry.Permanent(errBoom)
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), controller.ErrDrainTimeout)
		all := reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Canceled, all[0].Outcome)
		require.ErrorIs(t, all[0].Err, controller.ErrDrainTimeout)
		assert.Empty(t, c.Parked())
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, controller.Parked, reports.Take()[0].Outcome)
		assert.Equal(t, 2, words)
	})
}

func TestGaveUpOfReplacedLeaderIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		words := 0
		cfg := controller.Config[string]{GaveUp: func(ctx context.Context, _ string, _ error) error {
			words++
			_, leads := leaderelect.FromContext(ctx)
			assert.True(t, leads, "the fence is in the context")
			return &store.Error{Op: "update", Kind: "Site", Err: store.ErrFenced}
		}}
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, retry.Permanent(errBoom)
		})
		leases := newLeases()
		r := lead(t, leases, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, words, "it would be rejected repeatedly")
		assert.Equal(t, controller.Canceled, reports.Take()[0].Outcome)
		require.NoError(t, r.Stop())
		cfg.GaveUp = nil
		assert.Empty(t, c.Parked())
		assert.Equal(t, 1, c.Stats().Queue.Ready+c.Stats().Queue.Delayed)
	})
}

// The status does not yet say that the key was given up. So the next term either repairs the key, or gives it up at its first failure.
func TestFencedGaveUpLeavesBudgetSpent(t *testing.T) {
	for name, budget := range map[string]workqueue.Config[string]{
		"attempts": {MaxAttempts: 3, RateLimiter: &limiter{delay: time.Second}},
		"elapsed":  {MaxElapsed: 2 * time.Second, RateLimiter: &limiter{delay: time.Second}},
	} {
		for _, repaired := range []bool{false, true} {
			bubble(t, fmt.Sprint(name, ", repaired ", repaired), func(t *testing.T) {
				broken, words := true, 0
				cfg := controller.Config[string]{Queue: budget, GaveUp: func(context.Context, string, error) error {
					if words++; words == 1 {
						return store.ErrFenced
					}
					return nil
				}}
				c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
					if broken {
						return controller.Result{}, errBoom
					}
					return controller.Result{}, nil
				})
				r := looptest.Start(t, c.Run)
				c.Add("a")
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Equal(t, 1, words)
				all := reports.Take()
				require.Len(t, all, 3)
				assert.Equal(t, controller.Canceled, all[2].Outcome)
				require.NoError(t, r.Stop())
				time.Sleep(24 * time.Hour) // another replica leads
				broken = !repaired
				looptest.Start(t, c.Run)
				synctest.Wait()
				if last := reports.Take(); assert.Len(t, last, 1) && repaired {
					assert.Equal(t, controller.Succeeded, last[0].Outcome)
					broken = true
					c.Add("a")
					synctest.Wait()
					assert.Equal(t, controller.Failed, reports.Take()[0].Outcome, "it has a new budget")
				} else {
					assert.Equal(t, controller.Parked, last[0].Outcome)
					assert.Equal(t, []string{"a"}, c.Parked())
					assert.Equal(t, 2, words)
				}
				c.CheckInvariants(t)
			})
		}
	}
}

func TestGaveUpIsNotCalledAfterLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{GaveUp: func(context.Context, string, error) error {
			t.Error("called")
			return nil
		}}
		c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, retry.Permanent(errBoom)
		})
		leases := newLeases()
		r := lead(t, leases, c.Run)
		c.Add("a")
		time.Sleep(time.Second)
		cut(leases, true)
		time.Sleep(time.Hour)
		require.NoError(t, r.Stop())
		all := reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Canceled, all[0].Outcome)
		require.ErrorIs(t, all[0].Err, leaderelect.ErrLeaseExpired)
	})
}

// The report of a panic has its stack.
func TestGaveUpReportHasPanicStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}
		cfg.GaveUp = func(_ context.Context, _ string, err error) error { cause = err; return nil }
		c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) { panic(errBoom) })
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		var p *wait.PanicError
		require.ErrorAs(t, cause, &p)
		require.ErrorIs(t, cause, errBoom)
	})
}

// The log of a panic has its stack, even if GaveUp fails.
func TestLogOfPanicHasStackIfGaveUpFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := &looptest.Text{}
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: looptest.Logger(logged)}
		cfg.GaveUp = func(context.Context, string, error) error { return errors.New("no status") }
		c, _ := newController(t, cfg, func(context.Context, string) (controller.Result, error) { panic(errBoom) })
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		assert.Contains(t, logged.String(), "no status")
		assert.Contains(t, logged.String(), "parked_test.go", "the stack")
	})
}

// An event after a failed GaveUp revives the key, as if it were parked: what has failed may work now. So does one during the attempt or the
// call of GaveUp.
func TestEventAfterFailedGaveUpRevivesKey(t *testing.T) {
	for when, during := range map[string]int{"after it": -1, "in the last attempt": 1, "in GaveUp": 2} {
		for name, failed := range map[string]error{"a spent budget": errBoom, "a permanent error": retry.Permanent(errBoom)} {
			bubble(t, name+", "+when, func(t *testing.T) {
				var words atomic.Int64
				var c *controller.Controller[string]
				var add sync.Once
				comes := func(in int) {
					if during == in {
						add.Do(func() { c.Add("a") })
					}
				}
				cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 3, RateLimiter: &limiter{delay: time.Minute}}}
				cfg.GaveUp = func(context.Context, string, error) error {
					comes(2)
					if words.Add(1) == 1 {
						return errBoom
					}
					return nil
				}
				made, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
					info, _ := controller.FromContext(ctx)
					if words.Load() > 0 {
						return controller.Result{}, errBoom
					}
					if info.Attempt == 3 || retry.IsPermanent(failed) {
						comes(1)
					}
					return controller.Result{}, failed
				})
				c = made
				looptest.Start(t, c.Run)
				c.Add("a")
				for synctest.Wait(); words.Load() == 0; synctest.Wait() {
					time.Sleep(time.Second)
				}
				if during < 0 {
					c.Add("a")
					synctest.Wait()
				}
				all := reports.Take()
				last := all[len(all)-1]
				require.Equal(t, controller.Failed, last.Outcome, "%+v", all)
				assert.Equal(t, 1, last.Attempt)
				time.Sleep(3 * time.Minute)
				synctest.Wait()
				require.Equal(t, []string{"a"}, c.Parked())
				require.EqualValues(t, 2, words.Load())
				c.CheckInvariants(t)
			})
		}
	}
}

// The status does not yet say that the key was given up, whatever the error was. So GaveUp is called again at the next failure, however long
// after, unless an event comes.
func TestFailureAfterFailedGaveUpOfPermanentErrorGivesUp(t *testing.T) {
	for name, failed := range map[string]error{"failed": errBoom, "with a delay": retry.After(errBoom, time.Second), "fenced": store.ErrFenced} {
		for between, results := range map[string][]error{
			"nothing": {}, "not yet": {retry.NotYet(errBoom, time.Second)}, "a conflict": {errConflict},
			"permanent": {retry.Permanent(errBoom)}, "success": {nil, errBoom},
		} {
			bubble(t, name+", then "+between, func(t *testing.T) {
				words := 0
				cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 5, RateLimiter: &limiter{delay: time.Minute}}}
				cfg.GaveUp = func(context.Context, string, error) error {
					if words++; words == 1 {
						return failed
					}
					return nil
				}
				ends := append([]error{retry.Permanent(errBoom)}, results...)
				c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
					if len(ends) == 0 {
						return controller.Result{}, errBoom
					}
					err := ends[0]
					ends = ends[1:]
					return controller.Result{}, err
				})
				r := looptest.Start(t, c.Run)
				c.Add("a")
				synctest.Wait()
				require.Equal(t, 1, words)
				require.NoError(t, r.Stop())
				r = looptest.Start(t, c.Run)
				synctest.Wait()
				time.Sleep(2 * time.Minute)
				if between == "success" { // a whole budget
					c.Add("a")
					time.Sleep(24 * time.Hour)
					synctest.Wait()
					require.Equal(t, 2, words)
					all := reports.Take()
					require.Equal(t, 5, all[len(all)-1].Attempt)
				} else {
					require.Equal(t, []string{"a"}, c.Parked())
					require.Equal(t, 2, words)
				}
				require.NoError(t, r.Stop())
				c.CheckInvariants(t)
			})
		}
	}
}
