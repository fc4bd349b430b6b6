package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/wait"
)

var errStop = errors.New("shutting down")

func TestSleepTakesItsDuration(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			require.NoError(t, wait.Sleep(t.Context(), d))
			assert.Equal(t, max(d, 0), time.Since(start))
		})
	}
}

func TestSleepReturnsContextCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		start := time.Now()
		err := wait.Sleep(ctx, time.Hour)
		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, err, errStop)
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, "context canceled: shutting down")
	})
}

func TestEndedContextWinsOverZeroPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		for _, d := range []time.Duration{-1, 0, time.Hour} {
			assert.Equal(t, context.Canceled, wait.Sleep(ctx, d), "a cause that adds nothing is omitted")
		}
		assert.Zero(t, time.Since(start))
	})
}

func TestSleepEndingAtDeadlineFails(t *testing.T) {
	for range 50 { // the bubble runs timers of one moment in random order
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
			defer cancel()
			start := time.Now()
			err := wait.Sleep(ctx, time.Second)
			assert.Equal(t, time.Second, time.Since(start))
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorIs(t, err, errStop)
		})
	}
}

// late is a context whose deadline has passed before its timer has run.
type late struct {
	context.Context
	deadline time.Time
}

func (c late) Deadline() (time.Time, bool) { return c.deadline, true }

func TestDeadlineCountsEvenIfTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := late{t.Context(), time.Now()} // as when the clock on the wall has been set forward
		start := time.Now()
		assert.Equal(t, context.DeadlineExceeded, wait.Sleep(ctx, time.Hour))
		assert.LessOrEqual(t, time.Since(start), time.Second, "no hour of waiting for a context that has ended")
	})
}

func TestLateTimerOfBusyProcessKeepsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errStop) })
		start := time.Now()
		assert.ErrorIs(t, wait.Sleep(late{ended, start}, 0), errStop)
		assert.Equal(t, 50*time.Millisecond, time.Since(start))
	})
}
