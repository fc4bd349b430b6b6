package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestRunForgetsSuccessesAndRetriesOrParksFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 3}))
		q.Add("good")
		q.Add("bad")
		q.Add("ugly")
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ended := make(chan error, 1)
		go func() {
			ended <- q.Run(ctx, 2, func(ctx context.Context, item workqueue.Item[string]) error {
				assert.Equal(t, "value", ctx.Value(key{}))
				if item.Key == "bad" || item.Key == "ugly" && item.Attempt < 3 {
					return fmt.Errorf("attempt %d", item.Attempt)
				}
				return nil
			})
		}()
		sleep(time.Minute)
		require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats(), "ugly has succeeded, and is forgotten")
		info := q.Snapshot()[0]
		require.Equal(t, "bad", info.Key)
		require.Equal(t, 3, info.Failures)
		var texts []string
		for _, r := range info.Reasons {
			texts = append(texts, r.Text)
		}
		require.Equal(t, []string{"attempt 1", "attempt 2", "attempt 3"}, texts)

		require.Empty(t, ended)
		cancel()
		require.NoError(t, <-ended)
		require.False(t, q.ShuttingDown())
	})
}

func TestRunReturnsAfterWorkReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		time.AfterFunc(time.Second, cancel)
		require.NoError(t, q.Run(ctx, 3, func(context.Context, workqueue.Item[string]) error {
			time.Sleep(time.Minute)
			return nil
		}))
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}

func TestRunReturnsWhenQueueIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		ended := make(chan error, 1)
		done := 0
		for i := range 5 {
			q.Add(fmt.Sprint(i))
		}
		go func() {
			ended <- q.Run(t.Context(), 1, func(context.Context, workqueue.Item[string]) error {
				time.Sleep(time.Second)
				done++
				return errors.New("fails, and is not tried again after a shutdown")
			})
		}()
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		require.NoError(t, <-ended)
		require.Equal(t, 5, done)
	})
}

func TestRunWithoutWorkersOrWorkPanics(t *testing.T) {
	q := newQueue()
	require.PanicsWithValue(t, "workqueue: Run: work is nil", func() { _ = q.Run(t.Context(), 1, nil) })
	for _, n := range []int{0, -1} {
		require.PanicsWithValue(t, "workqueue: Run: the number of workers is not positive", func() { _ = q.Run(t.Context(), n, nil) })
	}
}

func TestRunNeverDispatchesKeyToTwoWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, keys = 4, 3
		q := must(workqueue.New(workqueue.Config[int]{}))
		var busy [keys]atomic.Bool
		var working, most, done atomic.Int32
		for k := range keys {
			q.Add(k)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second-1)
		defer cancel()
		require.NoError(t, q.Run(ctx, workers, func(_ context.Context, item workqueue.Item[int]) error {
			assert.True(t, busy[item.Key].CompareAndSwap(false, true))
			most.Store(max(most.Load(), working.Add(1)))
			q.Add(item.Key) // comes back, after its Done
			time.Sleep(time.Second)
			working.Add(-1)
			busy[item.Key].Store(false)
			done.Add(1)
			return nil
		}))
		require.EqualValues(t, keys, most.Load())
		require.EqualValues(t, keys*100, done.Load())
	})
}

// A sender of webhooks: the receiver says what becomes of a message.
func TestRunObeysErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log text
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 5, Logger: log.logger()}))
		began := time.Now()
		sent := map[string][]time.Duration{}
		answers := map[string][]error{
			"gone":     {permanent(errors.New("410"))},
			"busy":     {after(errors.New("429"), 2*time.Second), after(errors.New("429"), time.Minute)},
			"waiting":  {notYet(errors.New("202"), time.Minute), notYet(errors.New("202"), time.Hour)},
			"event":    {notYet(errors.New("202"), 0)},
			"conflict": {conflict{}, fmt.Errorf("put: %w", conflict{}), after(conflict{}, time.Second)},
			"both":     {errors.Join(conflict{}, errors.New("500"))},
		}
		stop := start(t, q, func(_ context.Context, item workqueue.Item[string]) error {
			n := len(sent[item.Key])
			sent[item.Key] = append(sent[item.Key], time.Since(began))
			if n < len(answers[item.Key]) {
				return answers[item.Key][n]
			}
			return nil
		})
		defer stop()
		for key := range answers {
			q.Add(key)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		require.Equal(t, 2, len(sent["waiting"]))
		require.Zero(t, q.NumRequeues("waiting"))
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Equal(t, map[string][]time.Duration{
			"gone": {0}, "busy": {0, 2 * time.Second, 62 * time.Second}, "waiting": {0, time.Minute, time.Minute + time.Hour}, "event": {0},
			"conflict": {0, 5 * time.Millisecond, 15 * time.Millisecond, 1015 * time.Millisecond}, "both": {0, 5 * time.Millisecond},
		}, sent)
		assert.Equal(t, []string{"gone"}, q.Parked())
		assert.Equal(t, "410", q.Snapshot()[0].Reasons[0].Text)
		for _, line := range []string{
			`level=ERROR msg="work failed, not retried" queue=workqueue key=gone attempt=1 error=410`,
			`level=WARN msg="work failed" queue=workqueue key=busy attempt=2 error=429`,
			`level=DEBUG msg="work is not finished" queue=workqueue key=waiting attempt=1 error=202`,
			`level=DEBUG msg="work is not finished" queue=workqueue key=conflict attempt=1 error="put: conflict"`,
			`level=WARN msg="work failed" queue=workqueue key=both attempt=1`,
		} {
			assert.Contains(t, log.String(), line)
		}
		require.NoError(t, q.CheckInvariants())
	})
}

func TestNinthConflictInARowIsAFailureOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2, Logger: discard}))
		attempts := 0
		stop := start(t, q, func(_ context.Context, item workqueue.Item[string]) error {
			if attempts++; attempts <= 9 {
				assert.Equal(t, 1, item.Attempt)
			}
			return conflict{}
		})
		defer stop()
		q.Add("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 10, attempts, "eight that do not count, and two failures")
		assert.Equal(t, []string{"k"}, q.Parked())
		q.Add("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 20, attempts, "it is revived with a whole budget")
		require.NoError(t, q.CheckInvariants())
	})
}

func TestFailureEndsTheRowOfConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 3, Logger: discard}))
		attempts := 0
		stop := start(t, q, func(context.Context, workqueue.Item[string]) error {
			if attempts++; attempts == 9 { // the ninth conflict would be a failure too
				return errors.New("broken")
			}
			return conflict{}
		})
		defer stop()
		q.Add("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 19, attempts, "eight conflicts, a failure, eight conflicts, and two that count")
		assert.Equal(t, []string{"k"}, q.Parked())
	})
}

func TestUnfinishedWorkIsParkedAfterMaxElapsed(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []time.Duration
	}{
		"until an event": {notYet(errors.New("waiting"), 0), []time.Duration{0, time.Minute}},
		"with a delay":   {notYet(errors.New("waiting"), 40*time.Second), []time.Duration{0, 40 * time.Second, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{MaxElapsed: time.Minute, Logger: discard}))
				var at []time.Duration
				began := time.Now()
				stop := start(t, q, func(context.Context, workqueue.Item[string]) error {
					at = append(at, time.Since(began))
					return c.err
				})
				defer stop()
				q.Add("k")
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				assert.Equal(t, c.want, at)
				assert.Equal(t, []string{"k"}, q.Parked())
				assert.Equal(t, "waiting", q.Snapshot()[0].Reasons[0].Text)
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

// A failure after unfinished work counts from the first attempt that did not finish.
func TestMaxElapsedOfFailureBeginsWithUnfinishedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxElapsed: time.Minute, Logger: discard}))
		attempts := 0
		stop := start(t, q, func(context.Context, workqueue.Item[string]) error {
			if attempts++; attempts == 1 {
				return notYet(errors.New("waiting"), 0)
			}
			return errors.New("broken")
		})
		defer stop()
		q.Add("k")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, attempts)
		assert.Equal(t, []string{"k"}, q.Parked())
	})
}

func TestForgetEndsUnfinishedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Logger: discard}))
		attempts := 0
		stop := start(t, q, func(context.Context, workqueue.Item[string]) error {
			attempts++
			return notYet(errors.New("waiting"), time.Minute)
		})
		defer stop()
		q.Add("k")
		synctest.Wait()
		q.Forget("k")
		require.Equal(t, workqueue.Stats{}, q.Stats())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, attempts)
		require.NoError(t, q.CheckInvariants())
	})
}

// A later leader has written. This process finds out soon that it does not lead.
func TestFencedWorkIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log text
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, Logger: log.logger()}))
		attempts := 0
		work := func(_ context.Context, item workqueue.Item[string]) error {
			assert.Equal(t, 1, item.Attempt)
			attempts++
			return permanent(fmt.Errorf("put: %w", fenced{}))
		}
		stop := start(t, q, work)
		q.AddWith("k", workqueue.AddOptions{Priority: 3})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, attempts)
		q.AddWith("k", workqueue.AddOptions{Priority: 3})
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 2, attempts, "an event triggers another attempt")
		require.Equal(t, workqueue.Stats{}, q.Stats())
		stop()
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.Contains(t, log.String(), `level=WARN msg="work was fenced, left to the next run" queue=workqueue key=k`)
		item, _ := q.TryTake()
		require.Equal(t, 3, item.Priority)
		item.Done()
		require.NoError(t, q.CheckInvariants())
	})
}

// nilError has methods that panic if it is nil.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestPanicOfWorkIsAFailedAttempt(t *testing.T) {
	for name, work := range map[string]func() error{
		"panic":               func() error { panic("boom") },
		"an error":            func() error { panic(permanent(conflict{})) },
		"of the error itself": func() error { return (*nilError)(nil) },
		"nil pointer":         func() error { return errors.New((*nilError)(nil).text) },
		"Goexit":              func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log text
				q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2, Logger: log.logger()}))
				var attempts []int
				stop := start(t, q, func(_ context.Context, item workqueue.Item[string]) error {
					if item.Key == "other" {
						return nil
					}
					attempts = append(attempts, item.Attempt)
					return work()
				})
				q.Add("k")
				q.Add("other")
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Equal(t, []int{1, 2}, attempts)
				assert.Equal(t, workqueue.Stats{Parked: 1}, q.Stats(), "the worker lives on")
				assert.Equal(t, 1, strings.Count(log.String(), `level=ERROR msg="work panicked" queue=workqueue key=k attempt=1`))
				assert.Equal(t, 1, strings.Count(log.String(), `level=ERROR msg="work panicked, not retried" queue=workqueue key=k attempt=2`))
				if name != "Goexit" {
					assert.Contains(t, log.String(), "run_test.go", "the stack")
				}
				stop()
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

// A hook may end its goroutine, as t.FailNow does. In a worker, that costs no key and no worker.
func TestGoexitOfHookCostsNoWorker(t *testing.T) {
	for name, cfg := range map[string]workqueue.Config[string]{
		"Dispatched": {Hooks: workqueue.Hooks[string]{Dispatched: func(string, int, time.Duration) { runtime.Goexit() }}},
		"Done":       {Hooks: workqueue.Hooks[string]{Done: func(string, time.Duration) { runtime.Goexit() }}},
		"Delayed":    {Hooks: workqueue.Hooks[string]{Delayed: func(string, time.Duration) { runtime.Goexit() }}},
		"Parked":     {Hooks: workqueue.Hooks[string]{Parked: func(string, int) { runtime.Goexit() }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.MaxAttempts, cfg.Logger = 2, discard
				q := must(workqueue.New(cfg))
				attempts := map[string]int{}
				stop := start(t, q, func(_ context.Context, item workqueue.Item[string]) error {
					if attempts[item.Key]++; item.Key == "bad" {
						return errors.New("bad")
					}
					return nil
				})
				q.Add("bad")
				q.Add("good")
				time.Sleep(time.Hour)
				synctest.Wait()
				if name == "Dispatched" { // work does not begin
					assert.ElementsMatch(t, []string{"bad", "good"}, q.Parked())
				} else {
					assert.Equal(t, map[string]int{"bad": 2, "good": 1}, attempts)
					assert.Equal(t, []string{"bad"}, q.Parked())
				}
				stop()
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

func TestRunDoesNotCountGracefulStopAsFailure(t *testing.T) {
	cause := errors.New("deploy")
	for name, c := range map[string]struct {
		stop    func(ctx context.Context) error
		failure bool
	}{
		"the cause":                {stop: context.Cause},
		"the cause, wrapped":       {stop: func(ctx context.Context) error { return fmt.Errorf("get: %w", context.Cause(ctx)) }},
		"the error":                {stop: func(ctx context.Context) error { return ctx.Err() }},
		"the error, permanent":     {stop: func(ctx context.Context) error { return permanent(ctx.Err()) }},
		"the error, with a delay":  {stop: func(ctx context.Context) error { return after(ctx.Err(), time.Hour) }},
		"the error, not yet":       {stop: func(ctx context.Context) error { return notYet(ctx.Err(), time.Hour) }},
		"an error of its own":      {stop: func(context.Context) error { return errors.New("broken") }},
		"a permanent error":        {stop: func(context.Context) error { return permanent(errors.New("broken")) }},
		"a fenced write":           {stop: func(context.Context) error { return fenced{} }},
		"that of another limit":    {stop: func(context.Context) error { return context.DeadlineExceeded }},
		"a panic":                  {stop: func(context.Context) error { panic("broken") }, failure: true},
		"nothing, because it ends": {stop: func(context.Context) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				q := must(workqueue.New(workqueue.Config[string]{
					MaxAttempts: 1, Debounce: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}))
				q.AddWith("k", workqueue.AddOptions{Priority: -3, After: -1})
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				require.NoError(t, q.Run(ctx, 1, func(ctx context.Context, _ workqueue.Item[string]) error {
					<-ctx.Done()
					return c.stop(ctx)
				}))
				require.NoError(t, q.CheckInvariants())
				switch {
				case c.failure:
					require.Equal(t, []string{"k"}, q.Parked())
					require.Contains(t, log.String(), "level=ERROR")
				case strings.HasPrefix(name, "nothing"):
					require.Equal(t, workqueue.Stats{}, q.Stats())
					require.Empty(t, log.String())
				default:
					require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats(), "for the next Run, immediately")
					require.Contains(t, log.String(), `level=INFO msg="work stopped, left to the next run"`)
					item, _ := q.TryTake()
					require.Equal(t, -3, item.Priority)
					require.Equal(t, 1, item.Attempt)
					require.Empty(t, item.Reasons)
				}
			})
		})
	}
}

// The cause of a context created within work is a failure like any other.
func TestRunCountsWorkTimeoutAsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, Logger: discard}))
		q.Add("k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, q.Run(ctx, 1, func(ctx context.Context, _ workqueue.Item[string]) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}))
		require.Equal(t, []string{"k"}, q.Parked())
	})
}

func TestGracefulStopAfterShutDownAddsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, q.Run(ctx, 1, func(ctx context.Context, _ workqueue.Item[string]) error {
			q.ShutDown()
			cancel()
			return ctx.Err()
		}))
		require.Equal(t, workqueue.Stats{}, q.Stats())
		require.NoError(t, q.Drain(t.Context()))
	})
}
