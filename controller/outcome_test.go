package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/redislease"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
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
	outcome: controller.Parked, stopped: controller.Canceled, err: errBoom, forgets: 1,
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
	name: "a conflict, and a failure",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(errBoom, errConflict)
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errConflict, again: 7 * time.Second, whens: 1,
}, {
	name: "a conflict, and a failure inside",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, fmt.Errorf("put: %w", errors.Join(errConflict, fmt.Errorf("close: %w", errBoom)))
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errConflict, again: 7 * time.Second, whens: 1,
}, {
	name: "a conflict, and not yet",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(retry.NotYet(errBoom, time.Hour), errConflict)
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errConflict, again: 5 * time.Millisecond,
}, {
	name: "a conflict, not yet, and a failure",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(retry.NotYet(errBoom, time.Hour), errConflict, errBoom)
	},
	outcome: controller.Failed, stopped: controller.Canceled, err: errConflict, again: 7 * time.Second, whens: 1,
}, {
	name: "two conflicts",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, errors.Join(errConflict, store.ErrConflict)
	},
	outcome: controller.Unfinished, stopped: controller.Canceled, err: errConflict, again: 5 * time.Millisecond,
}, {
	name: "a permanent conflict",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(errConflict)
	},
	outcome: controller.Parked, stopped: controller.Canceled, err: errConflict, forgets: 1,
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
	outcome: controller.Parked, stopped: controller.Canceled, err: errBoom, forgets: 1,
}, {
	name: "permanent error with its own delay",
	end: func(context.Context, string) (controller.Result, error) {
		return controller.Result{}, retry.Permanent(delayed{time.Hour})
	},
	outcome: controller.Parked, stopped: controller.Canceled, err: delayed{time.Hour}, forgets: 1,
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
	outcome: controller.Parked, stopped: controller.Canceled, err: errBoom, forgets: 1,
}, {
	name: "the error of the context, permanent",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, retry.Permanent(fmt.Errorf("call: %w", ctx.Err()))
	},
	outcome: controller.Parked, stopped: controller.Canceled, err: context.DeadlineExceeded, forgets: 1,
}, {
	name: "the cause of the context, permanent",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, retry.Permanent(context.Cause(ctx))
	},
	outcome: controller.Parked, stopped: controller.Canceled, err: controller.ErrTimeout, forgets: 1,
}, {
	name: "the error of the context, with a delay",
	end: func(ctx context.Context, _ string) (controller.Result, error) {
		<-ctx.Done()
		return controller.Result{}, retry.After(ctx.Err(), time.Hour)
	},
	outcome: controller.TimedOut, stopped: controller.Canceled, err: context.DeadlineExceeded, again: time.Hour,
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
				c.Inspect().Forget("a")
				assert.Empty(t, c.Parked())
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

// Errors whose methods do not work with a nil pointer. A function that returns a variable of such a type returns one that is not
// nil.
type (
	nilError   struct{ text string }
	nilUnwrap  struct{ err error }
	nilAfter   struct{ d time.Duration }
	nilIs      struct{ err error }
	nilConvert struct{ err error }
)

func (e *nilError) Error() string             { return e.text }
func (*nilUnwrap) Error() string              { return "" }
func (e *nilUnwrap) Unwrap() error            { return e.err }
func (*nilAfter) Error() string               { return "" }
func (e *nilAfter) RetryAfter() time.Duration { return e.d }
func (*nilIs) Error() string                  { return "" }
func (e *nilIs) Is(target error) bool         { return e.err == target }
func (*nilConvert) Error() string             { return "" }
func (e *nilConvert) As(any) bool             { return e.err == nil }

// nilErrors are errors with a method that panics, by its name.
func nilErrors() map[string]error {
	return map[string]error{
		"Error": (*nilError)(nil), "Unwrap": (*nilUnwrap)(nil), "RetryAfter": (*nilAfter)(nil), "Is": (*nilIs)(nil),
		"As": (*nilConvert)(nil),
	}
}

func TestPanickingErrorMethodIsReconcilePanic(t *testing.T) {
	for method, broken := range nilErrors() {
		bubble(t, method, func(t *testing.T) {
			attempts := 0
			c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
				if attempts++; attempts == 1 {
					return controller.Result{RequeueAfter: time.Hour}, broken
				}
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			c.Add("a")
			synctest.Wait()
			first := reports.Take()
			require.Len(t, first, 1)
			assert.Equal(t, controller.Panicked, first[0].Outcome)
			var p *wait.PanicError
			require.ErrorAs(t, first[0].Err, &p)
			assert.Contains(t, string(p.Stack), "."+method+"(", "the stack names the method")
			time.Sleep(time.Second)
			second := reports.Take()
			require.Len(t, second, 1)
			assert.Equal(t, controller.Succeeded, second[0].Outcome)
		})
	}
}

func TestPanickingErrorMethodIsMapperPanic(t *testing.T) {
	for method, broken := range nilErrors() {
		bubble(t, method, func(t *testing.T) {
			var attempts atomic.Int64
			s := newSource(object{Key: "a"})
			inf := newInformer("things", s)
			looptest.Start(t, inf.Run)
			logged := &looptest.Text{}
			c, reports := newController(t, controller.Config[string]{Logger: looptest.Logger(logged)}, noop, controller.Watches(inf, func(_ context.Context, o object) ([]string, error) {
				if attempts.Add(1) <= 2 {
					return nil, broken
				}
				return []string{o.Key}, nil
			}))
			looptest.Start(t, c.Run)
			time.Sleep(time.Second)
			assert.Equal(t, []string{"a"}, keysOf(reports.Take()))
			if method != "Is" { // which is never called
				assert.Contains(t, logged.String(), "."+method+"(")
			}
		})
	}
}

// brokenBook is an expectation that panics in the nth call of Expires, and in the calls after it, until it is mended.
type brokenBook struct {
	n      int
	calls  int
	mended atomic.Bool
}

func (b *brokenBook) Expires(string) (time.Time, bool) {
	if b.calls++; b.calls >= b.n && !b.mended.Load() {
		panic("no page")
	}
	return time.Time{}, !b.mended.Load()
}

func (*brokenBook) Notify(func(string)) (stop func()) { return func() {} }

func TestPanicOfUserCodeBeforeReconcileIsReconcilePanic(t *testing.T) {
	var book *brokenBook
	for name, cfg := range map[string]func() controller.Config[string]{
		"Expires": func() controller.Config[string] {
			book = &brokenBook{n: 1}
			return controller.Config[string]{Expectations: []controller.Expectations[string]{book}}
		},
		"second Expires": func() controller.Config[string] {
			book = &brokenBook{n: 2}
			return controller.Config[string]{Expectations: []controller.Expectations[string]{book}}
		},
		"Trace": func() (cfg controller.Config[string]) {
			book = &brokenBook{}
			cfg.Hooks.Trace = func(ctx context.Context, _ string, causes []string) (context.Context, func(controller.Report[string])) {
				assert.Equal(t, []string{"cause"}, causes, "also after the panic")
				if !book.mended.Load() {
					panic("no page")
				}
				return ctx, nil
			}
			return cfg
		},
	} {
		bubble(t, name, func(t *testing.T) {
			reconciles := 0
			c, reports := newController(t, cfg(), func(context.Context, string) (controller.Result, error) {
				reconciles++
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			c.AddWith("a", controller.AddOptions{Trace: "cause"})
			synctest.Wait()
			all := reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Panicked, all[0].Outcome)
			var p *wait.PanicError
			require.ErrorAs(t, all[0].Err, &p)
			assert.Equal(t, "no page", p.Value)
			assert.Contains(t, string(p.Stack), "outcome_test.go")
			assert.EqualValues(t, 1, c.Stats().Panics)
			assert.Zero(t, reconciles)
			book.mended.Store(true)
			time.Sleep(time.Minute)
			all = reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Succeeded, all[0].Outcome)
			assert.Equal(t, 2, all[0].Attempt)
			assert.Zero(t, c.Stats().Held)
			c.CheckInvariants(t)
		})
	}
}

// A replica does not retry a key of another one, whatever its own expectations do.
func TestPanicOfExpectationsLeavesKeyToItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Expectations: []controller.Expectations[string]{&brokenBook{n: 1}}}, noop)
		c.Share(noSlots{})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		assert.Empty(t, reports.Take())
		assert.Zero(t, c.Stats().Queue.Delayed)
	})
}

func TestPanicOfHookAfterReconcileIsLogged(t *testing.T) {
	for _, hook := range []string{"Hooks.Reconciled", "the function that Hooks.Trace returned"} {
		bubble(t, hook, func(t *testing.T) {
			var out looptest.Text
			cfg := controller.Config[string]{Logger: looptest.Logger(&out)}
			told := 0
			panics := func(r controller.Report[string]) {
				told++
				panic(errors.New("no dashboard"))
			}
			if hook == "Hooks.Reconciled" {
				cfg.Hooks.Reconciled = panics
			} else {
				cfg.Hooks.Trace = func(ctx context.Context, _ string, _ []string) (context.Context, func(controller.Report[string])) {
					return ctx, panics
				}
			}
			c, err := controller.New("test", noop, cfg)
			require.NoError(t, err)
			looptest.Start(t, c.Run)
			require.NoError(t, c.WaitReconciled(t.Context(), "a"), "it has succeeded")
			require.NoError(t, c.WaitReconciled(t.Context(), "a"), "and the worker still works")
			assert.Equal(t, 2, told)
			assert.Contains(t, out.String(), `msg="a hook panicked"`)
			assert.Contains(t, out.String(), hook)
			assert.Contains(t, out.String(), "outcome_test.go", "the stack")
			assert.EqualValues(t, 2, c.Stats().Outcomes[controller.Succeeded])
			assert.Zero(t, c.Stats().Panics)
			c.CheckInvariants(t)
		})
	}
}

// brokenNotify is an expectation that panics in Notify.
type brokenNotify struct{}

func (brokenNotify) Expires(string) (at time.Time, waiting bool) { return at, false }
func (brokenNotify) Notify(func(key string)) (stop func())       { panic(errBoom) }

// A manager recovers the panic, and may call Run again.
func TestPanicOfRunLeavesNothingBehind(t *testing.T) {
	for name, broken := range map[string]func(inf *informer.Informer[string, object]) *controller.Controller[string]{
		"Notify": func(inf *informer.Informer[string, object]) *controller.Controller[string] {
			return must(controller.New("test", noop, controller.Config[string]{
				Logger: quiet, Expectations: []controller.Expectations[string]{brokenNotify{}},
			}, controller.For(inf)))
		},
		"a handler": func(inf *informer.Informer[string, object]) *controller.Controller[string] {
			return must(controller.New("test", noop, controller.Config[string]{Logger: quiet}, controller.For(inf),
				controller.Handles(inf, func(func(string)) informer.Handler[string, object] { panic(errBoom) })))
		},
	} {
		bubble(t, name, func(t *testing.T) {
			inf := newInformer("things", newSource(object{Key: "a"}))
			looptest.Start(t, inf.Run)
			c := broken(inf)
			for range 2 {
				assert.PanicsWithValue(t, errBoom, func() { _ = c.Run(t.Context()) })
				synctest.Wait()
				assert.Zero(t, inf.Stats().Handlers)
				assert.False(t, c.Stats().Running)
			}
		})
	}
}

func TestOnlyNewEventsCancelReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource(object{Key: "a"}, object{Key: "b"})
		inf := must(informer.New(s, keyOf, informer.Config{ResyncPeriod: time.Hour}))
		looptest.Start(t, inf.Run)
		n := 0
		var ended []time.Duration
		began := time.Now()
		c, _ := newController(t, controller.Config[string]{CancelSuperseded: true}, func(ctx context.Context, key string) (controller.Result, error) {
			if key == "a" {
				if n++; n == 1 {
					<-ctx.Done()
					ended = append(ended, time.Since(began))
				}
			}
			return controller.Result{}, ctx.Err()
		}, controller.For(inf))
		looptest.Start(t, c.Run)
		time.Sleep(90 * time.Minute)
		assert.Empty(t, ended, "a resync does not cancel it")
		s.set(object{Key: "b", Value: 1})
		synctest.Wait()
		assert.Empty(t, ended, "another key does not")
		s.set(object{Key: "a", Value: 1})
		synctest.Wait()
		assert.Equal(t, []time.Duration{90 * time.Minute}, ended)
		assert.Equal(t, 2, n)
	})
}

func TestAddDoesNotCancelReconcileByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		c.Add("a")
		time.Sleep(time.Minute)
		for _, r := range reports.Take() {
			assert.Equal(t, controller.Succeeded, r.Outcome)
			assert.Equal(t, time.Second, r.Duration)
		}
	})
}

func TestBusyKeyIsEventuallyReconciled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{CancelSuperseded: true}, slow)
		looptest.Start(t, c.Run)
		for range 30 {
			c.Add("a")
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		superseded := []int{0}
		for _, r := range reports.Take() {
			if r.Outcome == controller.Succeeded {
				superseded = append(superseded, 0)
			} else {
				require.Equal(t, controller.Superseded, r.Outcome)
				superseded[len(superseded)-1]++
			}
		}
		assert.Equal(t, []int{8, 8, 7, 0}, superseded, "30 events, the last of which is final")
		c.CheckInvariants(t)
	})
}

func TestAddDuringDrainSupersedesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{CancelSuperseded: true}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("a")
		require.NoError(t, r.Stop())
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome, "work in flight is finished")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "added keys are left to the next run")
		c.CheckInvariants(t)
	})
}

// An Add that is held up until its key was handed out must not cancel the reconcile that it has caused. Nothing else would repeat it.
func TestLateAddDoesNotCancelItsOwnReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{CancelSuperseded: true}
		cfg.Queue.Hooks.Added = func(string, int) { time.Sleep(time.Millisecond) } // the worker is faster
		c, reports := newController(t, cfg, slow)
		looptest.Start(t, c.Run)
		c.Add("a")
		assert.Equal(t, 1, c.Stats().Queue.InProcess)
		time.Sleep(time.Minute)
		all := reports.Take()
		require.Len(t, all, 1)
		assert.Equal(t, controller.Succeeded, all[0].Outcome)
	})
}

// fenced is an error of a third-party store.
type fenced bool

func (fenced) Error() string  { return "fenced" }
func (f fenced) Fenced() bool { return bool(f) }

func TestFencedWriteIsNotRetriedBySameRun(t *testing.T) {
	for name, refused := range map[string]error{
		"store":      &store.Error{Op: "update", Kind: "sites", Key: "a", Err: store.ErrFenced},
		"sqllease":   sqllease.ErrFenced,
		"redislease": redislease.ErrFenced,
		"fence":      fence.ErrStale,
		"others":     fenced(true),
	} {
		bubble(t, name, func(t *testing.T) {
			var out looptest.Text
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: looptest.Logger(&out)},
				func(context.Context, string) (controller.Result, error) {
					return controller.Result{}, fmt.Errorf("write: %w", refused)
				})
			r := looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(48 * time.Hour)
			all := reports.Take()
			require.Len(t, all, 1, "this leader was replaced")
			assert.Equal(t, controller.Canceled, all[0].Outcome)
			assert.Zero(t, all[0].Retry)
			require.ErrorIs(t, all[0].Err, refused)
			assert.Contains(t, out.String(), `level=WARN msg="reconcile fenced, left to the next run"`)
			require.NoError(t, c.WaitIdle(t.Context()))
			c.Add("a")
			synctest.Wait()
			assert.Len(t, reports.Take(), 1, "an event triggers another check")
			assert.Empty(t, c.Parked())
			require.NoError(t, r.Stop())

			looptest.Start(t, c.Run)
			synctest.Wait()
			all = reports.Take()
			require.Len(t, all, 1, "the next run does it at once")
			assert.Equal(t, 1, all[0].Attempt, "it has not failed")
			c.CheckInvariants(t)
		})
	}
}

func TestFencedStepIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, store.ErrFenced
		})
		c.Add("a")
		_, ok := next(t.Context(), c)
		assert.True(t, ok)
		_, ok = next(t.Context(), c)
		assert.False(t, ok)
		reports.Take()
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1, "a run does it at once")
	})
}

func TestErrorNotFencedIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, fenced(false)
		})
		c.Add("a")
		next(t.Context(), c)
		assert.Equal(t, controller.Failed, reports.Take()[0].Outcome)
	})
}

// Neither a stop nor a later leader is the fault of the object.
func TestPermanentErrorOfFencedWriteParksNothing(t *testing.T) {
	for name, err := range map[string]error{
		"wrapped": retry.Permanent(store.ErrFenced), "joined": errors.Join(retry.Permanent(errBoom), fenced(true)),
		"joined with a failure": errors.Join(fenced(false), errBoom, fenced(true)),
	} {
		bubble(t, name, func(t *testing.T) {
			cfg := controller.Config[string]{GaveUp: func(context.Context, string, error) error { t.Error("called"); return nil }}
			c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, err })
			c.Add("a")
			next(t.Context(), c)
			assert.Equal(t, controller.Canceled, reports.Take()[0].Outcome)
			assert.Empty(t, c.Parked())
		})
	}
}
