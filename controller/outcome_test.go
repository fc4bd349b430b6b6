package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

// delayed is an error that says when to try again.
type delayed struct{ d time.Duration }

func (e delayed) Error() string             { return "try later" }
func (e delayed) RetryAfter() time.Duration { return e.d }

// errConflict is what a write returns that was meant for an older version.
var errConflict = &store.Error{Op: "update", Kind: "Site", Key: "a", Err: store.ErrConflict}

// endings are the ways in which a Reconcile can end, and their expected consequences.
var endings = []struct {
	name string
	end  func(context.Context, string) (controller.Result, error)

	outcome controller.Outcome
	stopped controller.Outcome // if the controller had stopped the reconcile
	err     error              // is in the chain of the error of the report
	again   time.Duration      // the next try comes after it; 0 is never
	whens   int64              // how often the rate limiter was asked
	forgets int64              // how often it is told to forget, when the key has failed before
}{{
	name:    "success",
	end:     noop,
	outcome: controller.Succeeded, stopped: controller.Succeeded, forgets: 1,
}, {
	name: "RequeueAfter",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Minute}, nil
	},
	outcome: controller.Succeeded, stopped: controller.Succeeded, again: time.Minute, forgets: 1,
}, {
	name: "not yet",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Hour}, fmt.Errorf("wrapped: %w", retry.NotYet(errBoom, time.Minute))
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errBoom, again: time.Minute,
}, {
	name: "not yet, until an event",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Hour}, retry.NotYet(errBoom, 0)
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errBoom,
}, {
	name: "not yet, twice",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(retry.NotYet(errBoom, time.Minute), retry.NotYet(errBoom, time.Hour))
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errBoom, again: time.Hour,
}, {
	name: "not yet, and a failure",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(retry.NotYet(errBoom, time.Minute), errBoom)
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "not yet, and permanent",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(retry.NotYet(errBoom, time.Minute), retry.Permanent(errBoom))
	},
	outcome: controller.Parked, stopped: controller.Parked, err: errBoom, forgets: 1,
}, {
	name: "a conflict",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, fmt.Errorf("put: %w", errConflict)
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errConflict, again: 5 * time.Millisecond,
}, {
	name: "conflict, bare, as of a fake store",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, store.ErrConflict
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: store.ErrConflict, again: 5 * time.Millisecond,
}, {
	name: "a conflict with its own delay",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, retry.After(errConflict, time.Minute)
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errConflict, again: time.Minute,
}, {
	name: "a permanent conflict",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(errConflict)
	},
	outcome: controller.Parked, stopped: controller.Parked, err: errConflict, forgets: 1,
}, {
	name: "Goexit",
	end: func(context.Context, string) (controller.Result, error) {
		runtime.Goexit()
		return controller.Result{}, nil
	},
	outcome: controller.Panicked, stopped: controller.Panicked, err: controller.ErrGoexitForTest, again: 7 * time.Second, whens: 1,
}, {
	name:    "panic with an error with its own delay",
	end:     func(context.Context, string) (controller.Result, error) { panic(delayed{time.Hour}) },
	outcome: controller.Panicked, stopped: controller.Panicked, err: delayed{time.Hour}, again: 7 * time.Second, whens: 1,
}, {
	name:    "error",
	end:     func(context.Context, string) (controller.Result, error) { return controller.Result{}, errBoom },
	outcome: controller.Failed, stopped: controller.Canceled, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "error beside a result",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Minute}, errBoom
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "error with its own delay",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, fmt.Errorf("api: %w", delayed{time.Hour})
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: delayed{time.Hour}, again: time.Hour,
}, {
	name:    "error with a delay of its own of zero",
	end:     func(context.Context, string) (controller.Result, error) { return controller.Result{}, delayed{} },
	outcome: controller.Failed, stopped: controller.Canceled, err: delayed{}, again: 7 * time.Second, whens: 1,
}, {
	name: "permanent error",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{RequeueAfter: time.Minute}, fmt.Errorf("wrapped: %w", retry.Permanent(errBoom))
	},
	outcome: controller.Parked, stopped: controller.Parked, err: errBoom, forgets: 1,
}, {
	name: "permanent error with its own delay",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(delayed{time.Hour})
	},
	outcome: controller.Parked, stopped: controller.Parked, err: delayed{time.Hour}, forgets: 1,
}, {
	name:    "panic",
	end:     func(context.Context, string) (controller.Result, error) { panic(errBoom) },
	outcome: controller.Panicked, stopped: controller.Panicked, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "panic with a permanent error",
	end: func(context.Context, string) (controller.Result, error) {
		panic(retry.Permanent(errBoom))
	},
	outcome: controller.Panicked, stopped: controller.Panicked, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "a returned error of a panic elsewhere",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		return controller.Result{}, wait.Call(ctx, func(context.Context) error { panic(errBoom) })
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errBoom, again: 7 * time.Second, whens: 1,
}, {
	name: "timeout",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{RequeueAfter: time.Minute}, fmt.Errorf("call: %w", ctx.Err())
	},
	outcome: controller.TimedOut, stopped: controller.Canceled, err: controller.ErrTimeout, again: 7 * time.Second, whens: 1,
}, {
	name: "timeout and an error with its own delay",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, delayed{time.Hour}
	},
	outcome: controller.TimedOut, stopped: controller.Canceled, err: controller.ErrTimeout, again: time.Hour,
}, {
	name: "timeout and not yet",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, retry.NotYet(errBoom, time.Hour)
	},
	outcome: controller.TimedOut, stopped: controller.Canceled, err: controller.ErrTimeout, again: 7 * time.Second, whens: 1,
}, {
	name: "timeout and a permanent error",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, retry.Permanent(errBoom)
	},
	outcome: controller.Parked, stopped: controller.Parked, err: errBoom, forgets: 1,
}, {
	name: "timeout and success",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, nil
	},
	outcome: controller.Succeeded, stopped: controller.Succeeded, forgets: 1,
}, {
	name: "a deadline of the user's own",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		<-ctx.Done()
		return controller.Result{}, ctx.Err()
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: context.DeadlineExceeded, again: 7 * time.Second, whens: 1,
}, {
	name: "a cancellation of the user's own",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return controller.Result{}, ctx.Err()
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: context.Canceled, again: 7 * time.Second, whens: 1,
}}

func TestEachOutcome(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			delays := &limiter{delay: 7 * time.Second}
			first := true
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: delays}, Timeout: 10 * time.Second}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if !first {
					return controller.Result{}, nil
				}
				first = false
				return e.end(ctx, key)
			})
			r := looptest.Start(t, c.Run)
			c.Add("a")
			synctest.Wait()
			for reports.Len() == 0 { // some take their time
				time.Sleep(time.Second)
				synctest.Wait()
			}

			report := reports.Take()[0]
			assert.Equal(t, "a", report.Key)
			assert.Equal(t, 1, report.Attempt)
			assert.Equal(t, e.outcome, report.Outcome)
			assert.Equal(t, e.again, report.Retry)
			assert.Equal(t, e.whens, delays.whens.Load())
			if e.outcome != controller.Parked {
				assert.Zero(t, delays.forgets.Load(), "there is nothing to forget")
			}
			if e.err == nil {
				require.NoError(t, report.Err)
			} else {
				require.ErrorIs(t, report.Err, e.err)
			}
			want := map[controller.Outcome]uint64{}
			for o := controller.Succeeded; o <= controller.Canceled; o++ {
				want[o] = 0
			}
			want[e.outcome] = 1
			assert.Equal(t, want, c.Stats().Outcomes)

			if e.again > 0 {
				time.Sleep(e.again - time.Nanosecond)
				synctest.Wait()
				assert.Empty(t, reports.Take(), "too early")
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				due := reports.Take()
				require.Len(t, due, 1, "due")
				if e.outcome == controller.Succeeded || e.outcome == controller.Unfinished {
					assert.Equal(t, 1, due[0].Attempt)
				} else {
					assert.Equal(t, 2, due[0].Attempt)
				}
			}
			time.Sleep(48 * time.Hour)
			assert.Empty(t, reports.Take())
			if e.outcome == controller.Parked {
				assert.Equal(t, []string{"a"}, c.Parked(), "one list has all parked keys")
				assert.Equal(t, workqueue.Parked, c.Snapshot()[0].State)
				assert.Equal(t, report.Err.Error(), c.Snapshot()[0].Reasons[0].Text)
				assert.True(t, c.Drop("a"))
				assert.False(t, c.Drop("a"))
			}
			assert.Equal(t, workqueue.Stats{}, c.Stats().Queue, "nothing is left")
			c.CheckInvariants(t)
			require.NoError(t, r.Stop())
		})
	}
}

func TestEachOutcomeDuringStop(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			entered, leave := make(chan struct{}), make(chan struct{})
			first := true
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: 10 * time.Second}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if !first {
					return controller.Result{}, nil
				}
				first = false
				close(entered)
				<-leave
				return e.end(ctx, key)
			})
			r := looptest.Start(t, c.Run)
			c.Add("a")
			<-entered
			r.Cancel()
			synctest.Wait()
			assert.False(t, r.Ended(), "the reconcile has not")
			close(leave)
			require.NoError(t, r.Stop(), "a drain leaves keys in backoff")
			assert.Equal(t, e.outcome, reports.Take()[0].Outcome, "the stop does not cancel the work")

			looptest.Start(t, c.Run)
			synctest.Wait()
			if e.again > 0 {
				assert.Equal(t, []string{"a"}, keysOf(reports.Take()), "the next run does it at once")
			}
			time.Sleep(48 * time.Hour)
			assert.Empty(t, reports.Take())
			c.CheckInvariants(t)
		})
	}
}

func TestEachOutcomeAfterLostLeadership(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			entered := make(chan struct{}, 1)
			first := true
			var cause error
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: time.Hour}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if !first {
					return controller.Result{}, nil
				}
				first = false
				entered <- struct{}{}
				<-ctx.Done()
				cause = context.Cause(ctx)
				return e.end(ctx, key)
			})
			c.Add("a")
			store := newLeases()
			ran := make(chan error, 1)
			r := lead(t, store, func(ctx context.Context) error {
				ran <- c.Run(ctx)
				return nil
			})
			<-entered
			cut(store, true)
			require.NoError(t, <-ran, "a lost leadership is no failure of the controller")
			require.NoError(t, r.Stop())
			require.ErrorIs(t, cause, leaderelect.ErrLeaseExpired)

			report := reports.Take()[0]
			assert.Equal(t, e.stopped, report.Outcome)
			if e.stopped == controller.Canceled {
				require.ErrorIs(t, report.Err, leaderelect.ErrLeaseExpired)
				assert.Zero(t, report.Retry)
			}

			looptest.Start(t, c.Run)
			synctest.Wait()
			if again := reports.Take(); e.again > 0 || e.stopped == controller.Canceled {
				require.Equal(t, []string{"a"}, keysOf(again), "the next run does it at once")
				if e.stopped == controller.Canceled {
					assert.Equal(t, 1, again[0].Attempt, "a stop is not a failed attempt")
				}
			} else {
				assert.Empty(t, again)
			}
			c.CheckInvariants(t)
		})
	}
}

func TestEachOutcomeWhenSuperseded(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			entered := make(chan struct{}, 1)
			n := 0
			var cause error
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: 7 * time.Second}}, Timeout: time.Hour, CancelSuperseded: true}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				if n++; n != 2 {
					return controller.Result{}, map[bool]error{true: errBoom}[n == 1]
				}
				entered <- struct{}{}
				<-ctx.Done()
				cause = context.Cause(ctx)
				return e.end(ctx, key)
			})
			r := looptest.Start(t, c.Run)
			c.Add("a") // fails
			synctest.Wait()
			c.Add("a")
			<-entered
			reports.Take()
			c.Add("a")
			synctest.Wait()
			all := reports.Take()
			require.ErrorIs(t, cause, controller.ErrSuperseded)
			require.Len(t, all, 2, "the key comes back at once")
			if e.stopped != controller.Canceled {
				assert.Equal(t, e.stopped, all[0].Outcome)
			} else {
				assert.Equal(t, controller.Superseded, all[0].Outcome)
				require.ErrorIs(t, all[0].Err, controller.ErrSuperseded)
				assert.Zero(t, all[0].Retry)
				assert.Equal(t, 2, all[1].Attempt, "neither failure nor success")
			}
			assert.Equal(t, controller.Succeeded, all[1].Outcome)
			time.Sleep(48 * time.Hour)
			assert.Empty(t, reports.Take(), "requeues of the superseded reconcile do not count")
			c.CheckInvariants(t)
			require.NoError(t, r.Stop())
		})
	}
}

func TestEachOutcomeOfSecondAttempt(t *testing.T) {
	for _, e := range endings {
		bubble(t, e.name, func(t *testing.T) {
			delays := &limiter{delay: 7 * time.Second}
			var infos []controller.Info
			cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: delays}, Timeout: 10 * time.Second}
			c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
				info, _ := controller.FromContext(ctx)
				switch infos = append(infos, info); len(infos) {
				case 1:
					return controller.Result{}, errBoom
				case 2:
					return e.end(ctx, key)
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			began := time.Now()
			c.Add("a")
			for reports.Len() < 2 { // some take their time
				time.Sleep(time.Second)
				synctest.Wait()
			}
			assert.Equal(t, e.outcome, reports.Take()[1].Outcome)
			assert.Equal(t, 2, infos[1].Attempt)
			assert.Equal(t, began, infos[1].FirstFailure)
			assert.Equal(t, e.whens+1, delays.whens.Load())
			assert.Equal(t, e.forgets, delays.forgets.Load())

			c.Add("a")
			synctest.Wait()
			last := infos[2]
			assert.Equal(t, "test", last.Controller)
			assert.EqualValues(t, 3, last.Reconcile)
			switch e.outcome {
			case controller.Succeeded, controller.Parked:
				assert.Equal(t, 1, last.Attempt)
				assert.Zero(t, last.FirstFailure)
			case controller.Unfinished:
				assert.Equal(t, 2, last.Attempt, "it keeps its place in the backoff")
				assert.Equal(t, began, last.FirstFailure)
			default:
				assert.Equal(t, 3, last.Attempt)
				assert.Equal(t, began, last.FirstFailure)
				assert.Equal(t, "boom", last.Reasons[0].Text)
				assert.Len(t, last.Reasons, 2, "the error of each earlier attempt")
			}
			c.CheckInvariants(t)
		})
	}
}

func TestOutcomesHaveNames(t *testing.T) {
	assert.Equal(t, "Succeeded", controller.Succeeded.String())
	assert.Equal(t, "TimedOut", controller.TimedOut.String())
	assert.Equal(t, "Canceled", controller.Canceled.String())
	assert.Equal(t, "Outcome(0)", controller.Outcome(0).String())
	assert.Equal(t, "Outcome(9)", (controller.Canceled + 1).String())
}
