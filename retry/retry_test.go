package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

var (
	errBusy = errors.New("busy")
	errStop = errors.New("shutting down")
)

// conflict is an error of some store.
type conflict struct{ yes bool }

func (c conflict) Error() string  { return fmt.Sprintf("conflict: %t", c.yes) }
func (c conflict) Conflict() bool { return c.yes }

// script is a function to retry that fails with its errors, in order, and then succeeds. It notes when it was called.
type script struct {
	start  time.Time
	errs   []error
	called []time.Duration
}

func newScript(errs ...error) *script { return &script{start: time.Now(), errs: errs} }

func (s *script) run(context.Context) error {
	s.called = append(s.called, time.Since(s.start))
	if len(s.called) > len(s.errs) {
		return nil
	}
	return s.errs[len(s.called)-1]
}

func seconds(ss ...float64) []time.Duration {
	ds := make([]time.Duration, 0, len(ss))
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

// doubling waits 1s, 2s, 4s and so on.
func doubling(steps int) wait.Backoff {
	return wait.Backoff{Duration: time.Second, Factor: 2, Steps: steps}
}

func TestDoTriesUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(errBusy, errBusy, errBusy)
		require.NoError(t, retry.Do(t.Context(), retry.Config{Backoff: doubling(0)}, s.run))
		assert.Equal(t, seconds(0, 1, 3, 7), s.called)
	})
}

func TestNoWaitAfterLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(errBusy, errBusy, io.EOF)
		err := retry.Do(t.Context(), retry.Config{Backoff: doubling(3)}, s.run)
		assert.Equal(t, seconds(0, 1, 3), s.called)
		assert.Equal(t, 3*time.Second, time.Since(s.start), "Do has slept after the last attempt")
		require.ErrorIs(t, err, retry.ErrGaveUp)
		assert.ErrorIs(t, err, io.EOF)
		assert.NotErrorIs(t, err, errBusy, "an older error is stale")
		assert.EqualError(t, err, "retry: gave up after attempt 3: EOF")
	})
}

func TestReachingTheCapDoesNotEndTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := doubling(6)
		b.Cap = 2 * time.Second
		s := newScript(errBusy, errBusy, errBusy, errBusy, errBusy, errBusy, errBusy)
		require.ErrorIs(t, retry.Do(t.Context(), retry.Config{Backoff: b}, s.run), retry.ErrGaveUp)
		assert.Equal(t, seconds(0, 1, 3, 5, 7, 9), s.called)
	})
}

func TestZeroBackoffIsDefaultAndZeroStepsAreUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		err := retry.Do(t.Context(), retry.Config{}, func(context.Context) error { calls++; return errBusy })
		require.ErrorIs(t, err, retry.ErrGaveUp)
		assert.Equal(t, 5, calls)
		assert.GreaterOrEqual(t, time.Since(start), 40*time.Millisecond)
		assert.LessOrEqual(t, time.Since(start), 44*time.Millisecond)
	})
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		require.NoError(t, retry.Do(t.Context(), retry.Config{Backoff: wait.Backoff{Duration: 1}}, func(context.Context) error {
			if calls++; calls < 1000 {
				return errBusy
			}
			return nil
		}))
		assert.Equal(t, 1000, calls)
	})
}

func TestDefaultsMatchClientGo(t *testing.T) {
	ms := time.Millisecond
	r, b := retry.DefaultRetry(), retry.DefaultBackoff()
	assert.Equal(t, wait.Backoff{Steps: 5, Duration: 10 * ms, Factor: 1, Jitter: 0.1}, r)
	assert.Equal(t, wait.Backoff{Steps: 4, Duration: 10 * ms, Factor: 5, Jitter: 0.1}, b)
}

func TestEndedContextNeverRunsFunction(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	s := newScript()
	err := retry.Do(ctx, retry.Config{}, s.run)
	assert.Empty(t, s.called)
	assert.ErrorIs(t, err, errStop)
	assert.ErrorIs(t, err, context.Canceled)
	v, err := retry.DoValue(ctx, retry.Config{}, func(context.Context) (int, error) { return 1, nil })
	assert.Zero(t, v)
	assert.ErrorIs(t, err, errStop, "never nil in place of the cancellation")
}

func TestCancelDuringWaitReturnsCauseAndLastError(t *testing.T) {
	for name, end := range map[string]error{"by a backoff": errBusy, "that an error asked for": retry.After(errBusy, time.Hour)} {
		t.Run("a wait "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(2*time.Second, func() { cancel(errStop) })
				s := newScript(io.EOF, end, nil)
				err := retry.Do(ctx, retry.Config{Backoff: doubling(0)}, s.run)
				assert.Equal(t, seconds(0, 1), s.called)
				assert.Equal(t, 2*time.Second, time.Since(s.start))
				require.ErrorIs(t, err, errStop)
				assert.ErrorIs(t, err, context.Canceled)
				assert.ErrorIs(t, err, errBusy)
				assert.NotErrorIs(t, err, io.EOF)
				assert.NotErrorIs(t, err, retry.ErrGaveUp)
				assert.EqualError(t, err, "retry: stopped after attempt 2: context canceled: shutting down: busy")
				assert.True(t, wait.Interrupted(err))
			})
		})
	}
}

// In client-go, a context.Canceled after one conflict was reported as the conflict.
func TestCancelIsNotReportedAsEarlierConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		calls := 0
		err := retry.OnConflict(ctx, doubling(5), func(ctx context.Context) error {
			if calls++; calls == 1 {
				return conflict{true}
			}
			cancel(errStop)
			return fmt.Errorf("store: put a: %w", ctx.Err())
		})
		assert.Equal(t, 2, calls)
		require.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errStop, "the function knew only that it was canceled, the context knows why")
		assert.False(t, retry.IsConflict(err), "%v", err)
	})
}

func TestCancelDuringLastAttemptIsNotReportedAsGivingUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen retry.Attempt
	err := retry.Do(ctx, retry.Config{
		Backoff:   wait.Backoff{Steps: 1},
		OnAttempt: func(_ context.Context, a retry.Attempt) { seen = a },
	}, func(context.Context) error { cancel(); return errBusy })
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, err, errBusy)
	assert.NotErrorIs(t, err, retry.ErrGaveUp)
	assert.Equal(t, retry.Attempt{Number: 1, Err: errBusy, Last: true}, seen)
}

func TestErrorWithCauseIsReturnedUnwrapped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failed := fmt.Errorf("store: put a: %w", context.Canceled)
	err := retry.Do(ctx, retry.Config{}, func(context.Context) error { cancel(); return failed })
	assert.Equal(t, failed, err)
}

func TestCancelDoesNotObscureDefiniteOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	assert.NoError(t, retry.Do(ctx, retry.Config{}, func(context.Context) error { cancel(); return nil }))

	ctx, cancel = context.WithCancel(t.Context())
	err := retry.OnConflict(ctx, wait.Backoff{}, func(context.Context) error { cancel(); return io.EOF })
	assert.Equal(t, io.EOF, err)
}

func TestTimeoutWithinAttemptIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(context.DeadlineExceeded, context.Canceled)
		require.NoError(t, retry.Do(t.Context(), retry.Config{Backoff: doubling(0)}, s.run))
		assert.Equal(t, seconds(0, 1, 3), s.called)
	})
}

func TestOnErrorReturnsNonRetriableErrorUnwrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(errBusy, io.EOF)
		err := retry.OnError(t.Context(), doubling(5), func(err error) bool { return errors.Is(err, errBusy) }, s.run)
		assert.Equal(t, io.EOF, err)
		assert.Equal(t, seconds(0, 1), s.called)
	})
}

func TestOnConflictRetriesConflictsOnly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		errs  []error
		calls int
		fails bool
	}{
		{"success is success", nil, 1, false},
		{"a conflict is retried", []error{conflict{true}}, 2, false},
		{"a wrapped conflict is retried", []error{fmt.Errorf("put: %w", conflict{true})}, 2, false},
		{"a joined conflict is retried", []error{errors.Join(io.EOF, conflict{true})}, 2, false},
		{"an error whose Conflict method returns false is not", []error{conflict{false}}, 1, true},
		{"another error is not", []error{conflict{true}, io.EOF}, 2, true},
		{"no more often than the steps allow", []error{conflict{true}, conflict{true}, conflict{true}}, 3, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(tc.errs...)
				err := retry.OnConflict(t.Context(), doubling(3), s.run)
				assert.Len(t, s.called, tc.calls)
				if !tc.fails {
					assert.NoError(t, err)
					return
				}
				assert.ErrorIs(t, err, tc.errs[len(tc.errs)-1])
			})
		})
	}
}

func TestDoValueReturnsValueOfSuccessfulAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		count := func(context.Context) (int, error) {
			if n++; n < 3 {
				return n, errBusy
			}
			return n, nil
		}
		v, err := retry.DoValue(t.Context(), retry.Config{}, count)
		require.NoError(t, err)
		assert.Equal(t, 3, v)

		n = 0
		v, err = retry.DoValue(t.Context(), retry.Config{Backoff: doubling(2)}, count)
		require.ErrorIs(t, err, errBusy)
		assert.Zero(t, v, "a value returned with an error is dropped")
	})
}

func TestPanicsPassThrough(t *testing.T) {
	assert.PanicsWithValue(t, "boom", func() {
		_ = retry.Do(t.Context(), retry.Config{}, func(context.Context) error { panic("boom") })
	})
}

func TestNoAttemptIsLastIfContextEndsDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		var seen []retry.Attempt
		cfg := retry.Config{Backoff: doubling(0), OnAttempt: func(_ context.Context, a retry.Attempt) { seen = append(seen, a) }}
		require.ErrorIs(t, retry.Do(ctx, cfg, newScript(errBusy, errBusy).run), context.DeadlineExceeded)
		assert.Equal(t, []retry.Attempt{{Number: 1, Err: errBusy, Delay: time.Second}}, seen)
	})
}
