package wait_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/wait"
)

// trueAt is a condition that notes when it is asked, takes as long as r says, and is true the n-th time.
func (r *runs) trueAt(n int) wait.Condition {
	return func(ctx context.Context) (bool, error) {
		r.run(ctx)
		return len(r.begins) == n, nil
	}
}

func TestPollKeepsFixedIntervalFromStart(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start wait.Start
		take  []time.Duration
		want  []time.Duration
	}{
		{"immediate", wait.Immediate, nil, seconds(0, 1, 2, 3, 4)},
		{"delayed", wait.Delayed, nil, seconds(1, 2, 3, 4, 5)},
		{"the condition's own time is within", wait.Immediate, seconds(0.5, 0, 0.9), seconds(0, 1, 2, 3, 4)},
		{"a slow condition is called again at once, then on the grid", wait.Immediate, seconds(0, 1.5), seconds(0, 1, 2.5, 3, 4)},
		{"missed intervals are one", wait.Delayed, seconds(0, 3.5), seconds(1, 2, 5.5, 6, 7)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRuns(tc.take...)
				require.NoError(t, wait.PollUntilContextCancel(t.Context(), time.Second, tc.start, r.trueAt(5)))
				assert.Equal(t, tc.want, r.begins)
				assert.Equal(t, tc.want[4], time.Since(r.start), "nothing is waited for once the condition is true")
			})
		})
	}
}

func TestDelayedPollWaitsForFirstInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		done := make(chan error, 1)
		go func() { done <- wait.PollUntilContextCancel(t.Context(), time.Minute, wait.Delayed, r.trueAt(1)) }()
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		require.Zero(t, r.count.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, 1, r.count.Load())
		require.NoError(t, <-done)
	})
}

func TestEndedContextNeverCallsCondition(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	cond := func(context.Context) (bool, error) { t.Error("asked"); return true, nil }
	for range 50 { // select is random
		for _, err := range []error{
			wait.For(ctx, cond),
			wait.PollUntilContextCancel(ctx, 0, wait.Immediate, cond),
			wait.PollUntilContextCancel(ctx, 0, wait.Delayed, cond),
			wait.PollUntilContextTimeout(ctx, 1, time.Second, wait.Immediate, cond),
			wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Steps: 1}, cond),
			wait.PollUntilContextTimeout(t.Context(), 1, 0, wait.Immediate, cond),
		} {
			require.Error(t, err)
			require.True(t, wait.Interrupted(err))
		}
	}
}

func TestTimeoutDiffersFromCancelAndCallerDeadline(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	// asks is a condition that hands on what its context says, as a remote call does
	asks := func(ctx context.Context) (bool, error) {
		return false, wait.Sleep(ctx, time.Hour)
	}
	// dull is the same, but knows nothing of causes
	dull := func(ctx context.Context) (bool, error) {
		<-ctx.Done()
		return false, fmt.Errorf("remote call: %w", ctx.Err())
	}
	for name, cond := range map[string]wait.Condition{"false": never, "error of the context": asks, "bare error of the context": dull} {
		poll := func(ctx context.Context) error {
			return wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Second, wait.Immediate, cond)
		}
		t.Run("timeout/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := poll(t.Context())
				assert.Equal(t, 5*time.Second, time.Since(start))
				assert.ErrorIs(t, err, wait.ErrTimeout)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotErrorIs(t, err, context.Canceled)
				assert.True(t, wait.Interrupted(err))
				assert.ErrorContains(t, err, "timeout after 5s")
			})
		})
		t.Run("cancellation/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(2500*time.Millisecond, func() { cancel(errStop) })
				start := time.Now()
				err := poll(ctx)
				assert.Equal(t, 2500*time.Millisecond, time.Since(start))
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, errStop)
				assert.NotErrorIs(t, err, wait.ErrTimeout)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				assert.True(t, wait.Interrupted(err))
			})
		})
		t.Run("deadline of the caller/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errStop)
				defer cancel()
				err := poll(ctx)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, errStop)
				assert.NotErrorIs(t, err, wait.ErrTimeout)
			})
		})
	}
}

func TestConditionDueAtTimeoutIsNotCalled(t *testing.T) {
	for range 50 { // the bubble runs timers of one moment in random order
		synctest.Test(t, func(t *testing.T) {
			r := newRuns()
			err := wait.PollUntilContextTimeout(t.Context(), time.Second, 3*time.Second, wait.Immediate, r.trueAt(4))
			require.ErrorIs(t, err, wait.ErrTimeout)
			require.EqualError(t, err, "wait: condition not met: context deadline exceeded: timeout after 3s")
			require.Equal(t, seconds(0, 1, 2), r.begins)
		})
	}
}

func TestConditionErrorIsReturnedUnwrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := wait.PollUntilContextCancel(t.Context(), time.Second, wait.Immediate, func(context.Context) (bool, error) {
			n++
			return n == 2, map[int]error{2: io.EOF}[n]
		})
		assert.Equal(t, io.EOF, err, "an error counts, even with true")
		assert.Equal(t, 2, n)
		assert.False(t, wait.Interrupted(err))

		ctx, cancel := context.WithCancelCause(t.Context())
		err = wait.For(ctx, func(context.Context) (bool, error) { cancel(errStop); return false, io.EOF })
		assert.Equal(t, io.EOF, err, "another failure is not a cancellation, even joined with one")

		inner := fmt.Errorf("remote call: %w", context.DeadlineExceeded)
		err = wait.For(t.Context(), func(context.Context) (bool, error) { return false, inner })
		assert.Equal(t, inner, err, "an inner timeout is not the context's")
	})
}

func TestConditionPanicIsReturned(t *testing.T) {
	err := wait.For(t.Context(), func(context.Context) (bool, error) { return false, explode("boom") })
	var p *wait.PanicError
	require.ErrorAs(t, err, &p)
	assert.Contains(t, string(p.Stack), "explode")
}

func TestConditionTrueDuringTimeoutCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	assert.NoError(t, wait.For(ctx, func(context.Context) (bool, error) { cancel(); return true, nil }))
}

func TestExponentialBackoffDoesNotWaitAfterLastStep(t *testing.T) {
	for _, tc := range []struct {
		name string
		b    wait.Backoff
		want []time.Duration
	}{
		{"one step means no wait", wait.Backoff{Duration: time.Second, Steps: 1}, seconds(0)},
		{"delays grow", wait.Backoff{Duration: time.Second, Factor: 2, Steps: 4}, seconds(0, 1, 3, 7)},
		{"the cap does not end it", wait.Backoff{Duration: time.Second, Factor: 2, Steps: 5, Cap: 2 * time.Second}, seconds(0, 1, 3, 5, 7)},
		{"a duration of 0 means no wait", wait.Backoff{Steps: 3}, seconds(0, 0, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRuns()
				err := wait.ExponentialBackoffWithContext(t.Context(), tc.b, r.trueAt(-1))
				assert.Equal(t, tc.want, r.begins)
				assert.Equal(t, tc.want[len(tc.want)-1], time.Since(r.start))
				require.ErrorIs(t, err, wait.ErrTimeout)
				assert.True(t, wait.Interrupted(err))
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
			})
		})
	}
}

func TestZeroStepsMeansUntilContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		require.NoError(t, wait.ExponentialBackoffWithContext(t.Context(), wait.Backoff{Duration: time.Second}, r.trueAt(100)))
		assert.Len(t, r.begins, 100)
	})
}

func TestExponentialBackoffWaitsFromEndOfCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns(seconds(5, 5)...)
		require.NoError(t, wait.ExponentialBackoffWithContext(t.Context(), wait.Backoff{Duration: time.Second, Factor: 2}, r.trueAt(3)))
		assert.Equal(t, seconds(0, 6, 13), r.begins)
	})
}

func TestForSlowsDownToOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		require.NoError(t, wait.For(t.Context(), r.trueAt(50)))
		assert.Zero(t, r.begins[0])
		assert.InDelta(t, 10*time.Millisecond, r.begins[1], float64(time.Millisecond))
		last := r.begins[49] - r.begins[48]
		assert.GreaterOrEqual(t, last, time.Second)
		assert.LessOrEqual(t, last, 1100*time.Millisecond)
	})
}

func TestConditionErrorWithCauseIsNotWrappedAgain(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	err := wait.For(ctx, func(ctx context.Context) (bool, error) {
		cancel(errStop)
		return false, wait.Sleep(ctx, time.Second)
	})
	require.ErrorIs(t, err, errStop)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, strings.Count(err.Error(), errStop.Error()), err)
}

func TestConditionContextEndsWithPoll(t *testing.T) {
	var lasting context.Context
	require.NoError(t, wait.PollUntilContextTimeout(t.Context(), time.Second, time.Hour, wait.Immediate,
		func(ctx context.Context) (bool, error) { lasting = ctx; return true, nil }))
	assert.Error(t, lasting.Err(), "its timer is leaked")
}

func TestCancelDuringLastStepIsNotTimeout(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Steps: 2}, func(context.Context) (bool, error) { cancel(errStop); return false, nil })
	require.ErrorIs(t, err, errStop)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, wait.ErrTimeout)

	ctx, cancel = context.WithCancelCause(t.Context())
	n := 0
	err = wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Steps: 2}, func(context.Context) (bool, error) {
		if n++; n == 2 {
			cancel(errStop)
		}
		return false, nil
	})
	require.ErrorIs(t, err, errStop)
	assert.NotErrorIs(t, err, wait.ErrTimeout, "the steps are used up too, but the caller's context has ended")
}
