package wait_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

var errStop = errors.New("shutting down")

func TestSleepTakesItsDuration(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if err := wait.Sleep(t.Context(), d); err != nil {
				t.Fatalf("wait.Sleep(ctx, d): %v", err)
			}
			if got, want := time.Since(start), max(d, 0); got != want {
				t.Errorf("time.Since(start) = %v, want %v", got, want)
			}
		})
	}
}

func TestSleepReturnsContextCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errStop) })
		start := time.Now()
		err := wait.Sleep(ctx, time.Hour)
		if got := time.Since(start); got != time.Second {
			t.Errorf("time.Since(start) = %v, want %v", got, time.Second)
		}
		if !errors.Is(err, errStop) {
			t.Errorf("err = %v, want %v", err, errStop)
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v, want %v", err, context.Canceled)
		}
		if got, want := fmt.Sprint(err), "context canceled: shutting down"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	})
}

func TestEndedContextWinsOverZeroPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		for _, d := range []time.Duration{-1, 0, time.Hour} {
			if got := wait.Sleep(ctx, d); got != context.Canceled {
				t.Errorf("a cause that adds nothing is omitted: wait.Sleep(ctx, d) = %v, want %v", got, context.Canceled)
			}
		}
		if got := time.Since(start); got != 0 {
			t.Errorf("time.Since(start) = %v, want 0", got)
		}
	})
}

func TestSleepEndingAtDeadlineFails(t *testing.T) {
	for range 50 { // the bubble runs timers of one moment in random order
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
			defer cancel()
			start := time.Now()
			err := wait.Sleep(ctx, time.Second)
			if got := time.Since(start); got != time.Second {
				t.Errorf("time.Since(start) = %v, want %v", got, time.Second)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("err = %v, want %v", err, context.DeadlineExceeded)
			}
			if !errors.Is(err, errStop) {
				t.Errorf("err = %v, want %v", err, errStop)
			}
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
		if got := wait.Sleep(ctx, time.Hour); got != context.DeadlineExceeded {
			t.Errorf("wait.Sleep(ctx, time.Hour) = %v, want %v", got, context.DeadlineExceeded)
		}
		if got := time.Since(start); got > time.Second {
			t.Errorf("no hour of waiting for a context that has ended: time.Since(start) = %v, want at most %v", got, time.Second)
		}
	})
}

func TestLateTimerOfBusyProcessKeepsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(errStop) })
		start := time.Now()
		if err := wait.Sleep(late{ended, start}, 0); !errors.Is(err, errStop) {
			t.Errorf("wait.Sleep(late{ended, start}, 0) = %v, want %v", err, errStop)
		}
		if got := time.Since(start); got != 50*time.Millisecond {
			t.Errorf("time.Since(start) = %v, want %v", got, 50*time.Millisecond)
		}
	})
}
