package controller_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewReportsInvalidFields(t *testing.T) {
	f := noop
	for _, test := range []struct {
		name, controller string
		r                func(context.Context, string) (controller.Result, error)
		cfg              controller.Config[string]
		want             string
	}{
		{"no name", "", f, controller.Config[string]{}, "controller: new: the name is empty"},
		{"workers", "x", f, controller.Config[string]{Workers: -1}, `controller: new "x": Config.Workers is -1, must not be negative`},
		{"attempts", "x", f, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: -1}}, `controller: new "x": Config.Queue.MaxAttempts is -1, must not be negative`},
		{"elapsed", "x", f, controller.Config[string]{Queue: workqueue.Config[string]{MaxElapsed: -1}}, `controller: new "x": Config.Queue.MaxElapsed is -1ns, must not be negative`},
		{"queue", "x", f, controller.Config[string]{Queue: workqueue.Config[string]{GroupLimit: 1}}, `controller: new "x": Config.Queue: workqueue: new queue: Config.GroupLimit is set without Config.Group`},
		{"the name of the queue", "x", f, controller.Config[string]{Queue: workqueue.Config[string]{Name: "y"}}, `controller: new "x": Config.Queue.Name is "y", must be empty: the queue has the name of the controller`},
		{"timeout", "x", f, controller.Config[string]{Timeout: -1}, `controller: new "x": Config.Timeout is -1ns, must not be negative`},
		{"stuck", "x", f, controller.Config[string]{StuckAfter: -1}, `controller: new "x": Config.StuckAfter is -1ns, must not be negative`},
		{"silent", "x", f, controller.Config[string]{SilentAfter: -1}, `controller: new "x": Config.SilentAfter is -1ns, must not be negative`},
		{"expectations", "x", f, controller.Config[string]{Expectations: []controller.Expectations[string]{nil}}, `controller: new "x": Config.Expectations[0] is nil`},
		{"drain", "x", f, controller.Config[string]{DrainTimeout: -1}, `controller: new "x": Config.DrainTimeout is -1ns, must not be negative`},
		{"sync", "x", f, controller.Config[string]{SyncTimeout: -1}, `controller: new "x": Config.SyncTimeout is -1ns, must not be negative`},
		{"reads", "x", f, controller.Config[string]{Reads: []controller.Informer{nil}}, `controller: new "x": Config.Reads[0] is nil`},
		{"several", "x", f, controller.Config[string]{Timeout: -1, Workers: -1}, "controller: new \"x\": Config.Workers is -1, must not be negative; Config.Timeout is -1ns, must not be negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := controller.New(test.controller, test.r, test.cfg)
			require.EqualError(t, err, test.want)
		})
	}
	c, err := controller.New("x", f, controller.Config[string]{})
	require.NoError(t, err)
	assert.Equal(t, "x", c.Name())
}

func TestKeyIsNeverReconciledConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most, all atomic.Int64
		c, reports := newController(t, controller.Config[string]{Workers: 8}, func(context.Context, string) (controller.Result, error) {
			all.Add(1)
			most.Store(max(most.Load(), inFlight.Add(1)))
			time.Sleep(10 * time.Millisecond)
			inFlight.Add(-1)
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		for range 100 {
			c.Add("a")
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, most.Load())
		assert.EqualValues(t, 31, all.Load(), "at 0, 10, ..., 290 and 300 ms")
		assert.Len(t, reports.Take(), 31)
	})
}

func TestKeysAreReconciledConcurrentlyUpToWorkers(t *testing.T) {
	for _, workers := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			var inFlight atomic.Int64
			c, _ := newController(t, controller.Config[string]{Workers: workers}, func(context.Context, string) (controller.Result, error) {
				inFlight.Add(1)
				time.Sleep(time.Second)
				inFlight.Add(-1)
				return controller.Result{}, nil
			})
			looptest.Start(t, c.Run)
			for _, key := range []string{"a", "b", "c", "d", "e"} {
				c.Add(key)
			}
			synctest.Wait()
			assert.EqualValues(t, max(workers, 1), inFlight.Load())
		})
	}
}

func TestKeyAddedDuringReconcileComesBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Workers: 2}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		c.Add("a")
		c.Add("a")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "a"}, keysOf(reports.Take()))
	})
}

func TestKeysAddedBetweenRunsWaitForNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, noop)
		c.Add("before")
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"before"}, keysOf(reports.Take()))
		require.NoError(t, r.Stop())

		c.Add("between")
		time.Sleep(time.Hour)
		assert.Empty(t, reports.Take())
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"between"}, keysOf(reports.Take()))
	})
}

func TestConcurrentRunIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{}, noop)
		r := looptest.Start(t, c.Run)
		synctest.Wait()
		err := c.Run(t.Context())
		require.ErrorIs(t, err, controller.ErrRunning)
		assert.True(t, c.Stats().Running, "the first goes on")
		require.NoError(t, r.Stop())
		assert.False(t, c.Stats().Running)
	})
}

func TestAttemptGrowsWithFailuresAndResetsOnSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []int
		c, reports := newController(t, controller.Config[string]{Timeout: time.Second}, func(ctx context.Context, _ string) (controller.Result, error) {
			attempts = append(attempts, attemptOf(ctx))
			switch len(attempts) {
			case 1:
				return controller.Result{}, errBoom
			case 2:
				panic("oh")
			case 3:
				<-ctx.Done()
				return controller.Result{}, ctx.Err()
			case 4:
				return controller.Result{}, delayed{time.Minute}
			case 5:
				return controller.Result{RequeueAfter: time.Minute}, nil
			case 6:
				return controller.Result{}, errBoom
			case 7:
				return controller.Result{}, retry.Permanent(errBoom)
			default:
				return controller.Result{}, nil
			}
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		c.Add("a")
		synctest.Wait()
		assert.Equal(t, []int{1, 2, 3, 4, 5, 1, 2, 1}, attempts)
		for i, r := range reports.Take() {
			assert.Equal(t, attempts[i], r.Attempt)
		}
	})
}

func TestDefaultBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{}, errBoom
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(100 * time.Millisecond)
		var retries []time.Duration
		for _, r := range reports.Take() {
			retries = append(retries, r.Retry/time.Millisecond)
		}
		assert.Equal(t, []time.Duration{5, 10, 20, 40, 80}, retries)
	})
}

func TestEventEndsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fail := true
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Hour}}}, func(context.Context, string) (controller.Result, error) {
			if fail {
				return controller.Result{}, errBoom
			}
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		fail = false
		c.Add("a")
		synctest.Wait()
		assert.Len(t, reports.Take(), 2)
		time.Sleep(2 * time.Hour)
		assert.Empty(t, reports.Take(), "the attempt that the backoff waited for has run")
	})
}

func TestLastRequeueAfterWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var after atomic.Int64
		after.Store(int64(time.Hour))
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Duration(after.Load())}, nil
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		time.Sleep(time.Minute)
		after.Store(int64(2 * time.Hour))
		c.Add("a")
		synctest.Wait()
		assert.Len(t, reports.Take(), 2)
		time.Sleep(2*time.Hour - time.Nanosecond)
		assert.Empty(t, reports.Take(), "the wake-up of the first one is gone")
		after.Store(0)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1)
	})
}

func TestLogsNameTheReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey:
				return slog.Attr{}
			case "first_failure":
				return slog.Duration("since_first_failure", time.Since(a.Value.Time()))
			case "stack":
				return slog.Bool("stack", strings.Contains(a.Value.String(), "controller_test.go"))
			}
			return a
		}}))
		n := 0
		cfg := controller.Config[string]{Logger: logger, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Minute}}, Timeout: time.Second}
		c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			switch n++; n {
			case 1:
				controller.Logger(ctx).Info("hello")
				return controller.Result{}, errBoom
			case 2:
				panic("oh")
			case 3:
				<-ctx.Done()
				return controller.Result{}, ctx.Err()
			case 5:
				return controller.Result{}, retry.Permanent(errBoom)
			case 6:
				return controller.Result{}, retry.NotYet(errBoom, 0)
			default:
				return controller.Result{}, nil
			}
		})
		looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		c.AddWith("a", controller.AddOptions{Reason: "moved"})
		synctest.Wait()
		c.Add("a")
		synctest.Wait()
		assert.Equal(t, strings.TrimLeft(`
level=INFO msg=hello controller=test key=a attempt=1 reconcile=1
level=WARN msg="reconcile failed" controller=test key=a attempt=1 reconcile=1 duration=0s error=boom retry=1m0s
level=ERROR msg="reconcile panicked" controller=test key=a attempt=2 reconcile=2 since_first_failure=1m0s reasons=[boom] duration=0s error="panic: oh" retry=1m0s stack=true
level=WARN msg="reconcile timed out" controller=test key=a attempt=3 reconcile=3 since_first_failure=2m1s reasons="[boom panic: oh]" duration=1s error="controller: the reconcile took too long: 1s have passed: context deadline exceeded" retry=1m0s
level=ERROR msg="reconcile failed, parked" controller=test key=a attempt=1 reconcile=5 reasons=[moved] duration=0s error=boom
`, "\n"), out.String())
	})
	assert.Same(t, slog.Default(), controller.Logger(t.Context()))
}

func TestStepReconcilesOneKeyInCallersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		var value any
		fail := true
		c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Minute}}},
			func(ctx context.Context, key string) (controller.Result, error) {
				value = ctx.Value(valueKey{})
				if fail && key == "a" {
					return controller.Result{}, errBoom
				}
				return controller.Result{}, nil
			})
		ctx := context.WithValue(t.Context(), valueKey{}, 7)
		_, ok := next(ctx, c)
		assert.False(t, ok)

		c.Add("a")
		c.Add("b")
		report, ok := next(ctx, c)
		assert.True(t, ok)
		assert.Equal(t, controller.Report[string]{Key: "a", Attempt: 1, Outcome: controller.Failed, Err: errBoom, Retry: time.Minute}, report)
		assert.Equal(t, 7, value)
		report, ok = next(ctx, c)
		assert.True(t, ok)
		assert.Equal(t, controller.Report[string]{Key: "b", Attempt: 1, Outcome: controller.Succeeded}, report)
		_, ok = next(ctx, c)
		assert.False(t, ok, "the other is not due")

		fail = false
		time.Sleep(time.Minute)
		synctest.Wait()
		report, ok = next(ctx, c)
		assert.True(t, ok)
		assert.Equal(t, controller.Report[string]{Key: "a", Attempt: 2, Outcome: controller.Succeeded}, report)
		assert.Len(t, reports.Take(), 3)
		c.CheckInvariants(t)
	})
}

func TestStepWithEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: -time.Second}}}
		c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			if n++; n <= 2 {
				return controller.Result{}, errBoom
			}
			cancel()
			return controller.Result{}, ctx.Err()
		})
		c.Add("a")
		for range 2 {
			report, ok := next(ctx, c)
			assert.True(t, ok)
			assert.Equal(t, controller.Failed, report.Outcome)
			assert.Zero(t, report.Retry, "a negative delay means no delay")
		}
		report, ok := next(ctx, c)
		assert.True(t, ok)
		assert.Equal(t, controller.Canceled, report.Outcome)
		assert.Equal(t, 3, report.Attempt)
		_, ok = next(ctx, c)
		assert.False(t, ok, "an ended context does nothing")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "the key is not lost")
		report, ok = next(t.Context(), c)
		assert.True(t, ok)
		assert.Equal(t, controller.Succeeded, report.Outcome)
		assert.Equal(t, 3, report.Attempt, "a stop is neither failure nor success")
		c.CheckInvariants(t)
	})
}

func TestStepAndRunExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *controller.Controller[string]
		var inside error
		c, _ = newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			inside = c.Run(ctx)
			return controller.Result{}, nil
		})
		c.Add("a")
		next(t.Context(), c)
		require.ErrorIs(t, inside, controller.ErrRunning)

		r := looptest.Start(t, c.Run)
		synctest.Wait()
		assert.PanicsWithValue(t, "controller: Step called during a Run", func() { c.Step(t.Context(), "a") })
		require.NoError(t, r.Stop())
		c.CheckInvariants(t)
	})
}

func TestNilArgumentsAreRejected(t *testing.T) {
	for want, cfg := range map[string]controller.Config[string]{
		"Expectations[0] is nil":                   {Expectations: []controller.Expectations[string]{(*expectations.Versions[string])(nil)}},
		"Reads[1] is nil":                          {Reads: []controller.Informer{newInformer("a", newSource()), (*informer.Informer[string, object])(nil)}},
		"Queue.RateLimiter is a nil *workqueue.Bu": {Queue: workqueue.Config[string]{RateLimiter: (*workqueue.BucketRateLimiter[string])(nil)}},
	} {
		_, err := controller.New("x", noop, cfg)
		require.ErrorContains(t, err, `controller: new "x": Config.`+want)
	}
}

func TestInvalidWatchPanicsAtConstruction(t *testing.T) {
	c, _ := newController(t, controller.Config[string]{}, noop)
	inf := newInformer("things", newSource())
	var none *informer.Informer[string, object]
	handler := func(func(string)) informer.Handler[string, object] { return informer.Handler[string, object]{} }
	for want, call := range map[string]func(){
		"controller: New called with a nil reconcile function": func() { _, _ = controller.New("x", nil, controller.Config[string]{}) },
		"controller: New called with nil as input 2": func() {
			_, _ = controller.New("x", noop, controller.Config[string]{}, controller.For(inf), nil)
		},
		"controller: New called with a zero Watch": func() {
			_, _ = controller.New("x", noop, controller.Config[string]{}, controller.Watch[string, object]{})
		},
		"controller: Share called with a nil Slots":      func() { c.Share((*shard.Slots)(nil)) },
		"controller: For called with a nil informer":     func() { controller.For(none) },
		"controller: Owns called with a nil informer":    func() { controller.Owns[int](nil, "Site") },
		"controller: Watches called with a nil informer": func() { controller.Watches(none, owner) },
		"controller: Watches called with a nil function": func() { controller.Watches[string](inf, nil) },
		"controller: Handles called with a nil informer": func() { controller.Handles(none, handler) },
		"controller: Handles called with a nil handler":  func() { controller.Handles[string](inf, nil) },
		"controller: Where called with a nil function":   func() { controller.For(inf).Where(nil) },
		"controller: When called with a nil function":    func() { controller.For(inf).When(nil) },

		"controller: NewCollector called with a nil children": func() {
			_, _ = controller.NewCollector[int, int](nil, nil, nil, controller.Config[string]{})
		},
		"controller: WaitReconciled called with a nil object": func() { _ = c.WaitReconciled(t.Context(), "a", nil) },
		"informer: WaitForSync called with nil as argument 2": func() { _ = informer.WaitForSync(t.Context(), nil) },
		"informer: WaitForSync called with nil as argument 3": func() { _ = informer.WaitForSync(t.Context(), inf, none) },
	} {
		assert.PanicsWithValue(t, want, call)
	}
}
