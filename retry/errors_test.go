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

func TestPermanentErrorIsNeverRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newScript(fmt.Errorf("put: %w", retry.Permanent(errBusy)))
		outer := 0
		always := func(error) bool { return true }
		err := retry.OnError(t.Context(), doubling(5), always, func(ctx context.Context) error {
			outer++
			return retry.Do(ctx, retry.Config{Retriable: always}, inner.run)
		})
		assert.EqualError(t, err, "put: busy")
		assert.ErrorIs(t, err, errBusy)
		assert.True(t, retry.IsPermanent(err))
		assert.Len(t, inner.called, 1)
		assert.Equal(t, 1, outer, "the mark must outlive the inner retry")
	})
}

func TestErrorSetsItsOwnDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(
			retry.After(errBusy, 10*time.Second),
			errBusy, // the backoff has counted on: 2s
			fmt.Errorf("put: %w", retry.After(errBusy, 1)),
			retry.After(errBusy, -1), // no wish: 8s
			retry.After(errBusy, time.Hour),
		)
		b := doubling(5)
		b.Jitter, b.Rand = 1, func() float64 { return 0 }
		err := retry.Do(t.Context(), retry.Config{Backoff: b}, s.run)
		assert.Equal(t, append(seconds(0, 10, 12), 12*time.Second+1, 20*time.Second+1), s.called)
		assert.Equal(t, 20*time.Second+1, time.Since(s.start), "no wait after the last attempt, even if requested")
		assert.EqualError(t, err, "retry: gave up after attempt 5: busy")
	})
}

func TestOwnDelayIsNotJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(retry.After(errBusy, 10*time.Second))
		b := wait.Backoff{Duration: time.Second, Jitter: 1, Rand: func() float64 { return 0.5 }}
		require.NoError(t, retry.Do(t.Context(), retry.Config{Backoff: b}, s.run))
		assert.Equal(t, seconds(0, 10), s.called)
	})
}

func TestOwnDelayDoesNotMakeErrorRetriable(t *testing.T) {
	s := newScript(retry.After(io.EOF, 0))
	err := retry.OnConflict(t.Context(), wait.Backoff{}, s.run)
	assert.ErrorIs(t, err, io.EOF)
	assert.Len(t, s.called, 1)
}

func TestMarkingNilReturnsNil(t *testing.T) {
	assert.True(t, retry.Permanent(nil) == nil)
	assert.True(t, retry.After(nil, time.Second) == nil)
	assert.False(t, retry.IsPermanent(nil))
	assert.False(t, retry.IsConflict(nil))
}

func TestFirstErrorInChainDecidesConflict(t *testing.T) {
	assert.True(t, retry.IsConflict(errors.Join(conflict{true}, conflict{false})))
	assert.False(t, retry.IsConflict(errors.Join(conflict{false}, conflict{true})))
}

func TestOnAttemptIsCalledBeforeEachWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type seen struct {
			retry.Attempt
			at time.Duration
		}
		var got []seen
		s := newScript(errBusy, retry.After(errBusy, 5*time.Second))
		cfg := retry.Config{Backoff: doubling(0), OnAttempt: func(ctx context.Context, a retry.Attempt) {
			require.Equal(t, t.Context(), ctx)
			got = append(got, seen{a, time.Since(s.start)})
		}}
		require.NoError(t, retry.Do(t.Context(), cfg, s.run))
		assert.Equal(t, []seen{
			{retry.Attempt{Number: 1, Err: errBusy, Delay: time.Second}, 0},
			{retry.Attempt{Number: 2, Err: s.errs[1], Delay: 5 * time.Second}, time.Second},
			{retry.Attempt{Number: 3, Last: true}, 6 * time.Second},
		}, got)
	})
}
