package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if got := fmt.Sprint(err); got != "put: busy" {
			t.Errorf("err = %q, want %q", got, "put: busy")
		}
		if !errors.Is(err, errBusy) {
			t.Errorf("err = %v, want %v", err, errBusy)
		}
		if !retry.IsPermanent(err) {
			t.Error("retry.IsPermanent(err) is false")
		}
		if len(inner.called) != 1 {
			t.Errorf("len(inner.called) = %d, want 1: %v", len(inner.called), inner.called)
		}
		if outer != 1 {
			t.Errorf("the mark must outlive the inner retry: outer = %v, want 1", outer)
		}
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
		if diff := cmp.Diff(append(seconds(0, 10, 12), 12*time.Second+1, 20*time.Second+1), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
		if got := time.Since(s.start); got != 20*time.Second+1 {
			t.Errorf("no wait after the last attempt, even if requested: time.Since(s.start) = %v, want %v", got, 20*time.Second+1)
		}
		if got, want := fmt.Sprint(err), "retry: gave up after attempt 5: busy"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	})
}

func TestOwnDelayIsNotJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(retry.After(errBusy, 10*time.Second))
		b := wait.Backoff{Duration: time.Second, Jitter: 1, Rand: func() float64 { return 0.5 }}
		if err := retry.Do(t.Context(), retry.Config{Backoff: b}, s.run); err != nil {
			t.Fatalf("retry.Do(ctx, retry.Config{Backoff: b}, s.run): %v", err)
		}
		if diff := cmp.Diff(seconds(0, 10), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestOwnDelayDoesNotMakeErrorRetriable(t *testing.T) {
	s := newScript(retry.After(io.EOF, 0))
	err := retry.OnConflict(t.Context(), wait.Backoff{}, s.run)
	if !errors.Is(err, io.EOF) {
		t.Errorf("err = %v, want %v", err, io.EOF)
	}
	if len(s.called) != 1 {
		t.Errorf("len(s.called) = %d, want 1: %v", len(s.called), s.called)
	}
}

func TestMarkingNilReturnsNil(t *testing.T) {
	if retry.Permanent(nil) != nil {
		t.Error("retry.Permanent(nil) is not nil")
	}
	if retry.After(nil, time.Second) != nil {
		t.Error("retry.After(nil, time.Second) is not nil")
	}
	if retry.IsPermanent(nil) {
		t.Error("retry.IsPermanent(nil) is true")
	}
	if retry.IsConflict(nil) {
		t.Error("retry.IsConflict(nil) is true")
	}
}

func TestFirstErrorInChainDecidesConflict(t *testing.T) {
	if !retry.IsConflict(errors.Join(conflict{true}, conflict{false})) {
		t.Error("retry.IsConflict(errors.Join(conflict{true}, conflict{false})) is false")
	}
	if retry.IsConflict(errors.Join(conflict{false}, conflict{true})) {
		t.Error("retry.IsConflict(errors.Join(conflict{false}, conflict{true})) is true")
	}
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
			if ctx != t.Context() {
				t.Fatal("OnAttempt gets another context than the function")
			}
			got = append(got, seen{a, time.Since(s.start)})
		}}
		if err := retry.Do(t.Context(), cfg, s.run); err != nil {
			t.Fatalf("retry.Do(ctx, cfg, s.run): %v", err)
		}
		want := []seen{
			{retry.Attempt{Number: 1, Err: errBusy, Delay: time.Second}, 0},
			{retry.Attempt{Number: 2, Err: s.errs[1], Delay: 5 * time.Second}, time.Second},
			{retry.Attempt{Number: 3, Last: true}, 6 * time.Second},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}
