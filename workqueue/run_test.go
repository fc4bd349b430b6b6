package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestRunDoesNotCountGracefulStopAsFailure(t *testing.T) {
	cause := errors.New("deploy")
	for name, c := range map[string]struct {
		stop    func(ctx context.Context) error
		failure bool
	}{
		"the cause":                {stop: context.Cause},
		"the cause, wrapped":       {stop: func(ctx context.Context) error { return fmt.Errorf("get: %w", context.Cause(ctx)) }},
		"the error":                {stop: func(ctx context.Context) error { return ctx.Err() }},
		"an error of its own":      {stop: func(context.Context) error { return errors.New("broken") }, failure: true},
		"that of another limit":    {stop: func(context.Context) error { return context.DeadlineExceeded }, failure: true},
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
					require.Empty(t, log.String())
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

func TestRunLogsWorkErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := must(workqueue.New(workqueue.Config[string]{
			Name: "cities", MaxAttempts: 2, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		q.Add("atlantis")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, q.Run(ctx, 1, func(context.Context, workqueue.Item[string]) error { return errors.New("no such city") }))
		var lines []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " ")
			lines = append(lines, strings.TrimSpace(line))
		}
		require.Equal(t, []string{
			`level=WARN msg="workqueue: work failed" queue=cities key=atlantis attempt=1 error="no such city"`,
			`level=ERROR msg="workqueue: work failed, not retried" queue=cities key=atlantis attempt=2 error="no such city"`,
		}, lines)
	})
}

func TestRunPanicsOnNilWork(t *testing.T) {
	q := newQueue()
	q.Add("k")
	require.PanicsWithValue(t, "workqueue: Run: work is nil", func() { _ = q.Run(t.Context(), 1, nil) })
	require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
}

func TestRunReplacesWorkerAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		for i := range 5 {
			q.Add(fmt.Sprint(i))
		}
		attempts := 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, q.Run(ctx, 1, func(_ context.Context, item workqueue.Item[string]) error {
			attempts++
			if item.Key != "4" {
				runtime.Goexit()
			}
			return nil
		}))
		assert.Equal(t, 9, attempts)
		require.Equal(t, []string{"0", "1", "2", "3"}, q.Parked())
		require.Equal(t, "work called runtime.Goexit", q.Snapshot()[0].Reasons[0].Text)
		require.Equal(t, 8, strings.Count(log.String(), "work called runtime.Goexit"))
		require.NoError(t, q.CheckInvariants())
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
