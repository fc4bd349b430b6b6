package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
		if err := retry.Do(t.Context(), retry.Config{Backoff: doubling(0)}, s.run); err != nil {
			t.Fatalf("retry.Do: %v", err)
		}
		if diff := cmp.Diff(seconds(0, 1, 3, 7), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestNoWaitAfterLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(errBusy, errBusy, io.EOF)
		err := retry.Do(t.Context(), retry.Config{Backoff: doubling(3)}, s.run)
		if diff := cmp.Diff(seconds(0, 1, 3), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
		if got := time.Since(s.start); got != 3*time.Second {
			t.Errorf("Do has slept after the last attempt: time.Since(s.start) = %v, want %v", got, 3*time.Second)
		}
		if !errors.Is(err, retry.ErrGaveUp) {
			t.Fatalf("err = %v, want %v", err, retry.ErrGaveUp)
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("err = %v, want %v", err, io.EOF)
		}
		if errors.Is(err, errBusy) {
			t.Errorf("an older error is stale: err = %v, want another error", err)
		}
		if got, want := fmt.Sprint(err), "retry: gave up after attempt 3: EOF"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	})
}

func TestReachingTheCapDoesNotEndTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := doubling(6)
		b.Cap = 2 * time.Second
		s := newScript(errBusy, errBusy, errBusy, errBusy, errBusy, errBusy, errBusy)
		if err := retry.Do(t.Context(), retry.Config{Backoff: b}, s.run); !errors.Is(err, retry.ErrGaveUp) {
			t.Fatalf("retry.Do(ctx, retry.Config{Backoff: b}, s.run) = %v, want %v", err, retry.ErrGaveUp)
		}
		if diff := cmp.Diff(seconds(0, 1, 3, 5, 7, 9), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestZeroBackoffIsDefaultAndZeroStepsAreUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		err := retry.Do(t.Context(), retry.Config{}, func(context.Context) error { calls++; return errBusy })
		if !errors.Is(err, retry.ErrGaveUp) {
			t.Fatalf("err = %v, want %v", err, retry.ErrGaveUp)
		}
		if calls != 5 {
			t.Errorf("calls = %v, want 5", calls)
		}
		if got := time.Since(start); got < 40*time.Millisecond {
			t.Errorf("time.Since(start) = %v, want at least %v", got, 40*time.Millisecond)
		}
		if got := time.Since(start); got > 44*time.Millisecond {
			t.Errorf("time.Since(start) = %v, want at most %v", got, 44*time.Millisecond)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		if err := retry.Do(t.Context(), retry.Config{Backoff: wait.Backoff{Duration: 1}}, func(context.Context) error {
			if calls++; calls < 1000 {
				return errBusy
			}
			return nil
		}); err != nil {
			t.Fatalf("retry.Do: %v", err)
		}
		if calls != 1000 {
			t.Errorf("calls = %v, want 1000", calls)
		}
	})
}

func TestDefaultsMatchClientGo(t *testing.T) {
	ms := time.Millisecond
	r, b := retry.DefaultRetry(), retry.DefaultBackoff()
	if diff := cmp.Diff(wait.Backoff{Steps: 5, Duration: 10 * ms, Factor: 1, Jitter: 0.1}, r); diff != "" {
		t.Errorf("r mismatch (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wait.Backoff{Steps: 4, Duration: 10 * ms, Factor: 5, Jitter: 0.1}, b); diff != "" {
		t.Errorf("b mismatch (-want +got):\n%s", diff)
	}
}

func TestEndedContextNeverRunsFunction(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	s := newScript()
	err := retry.Do(ctx, retry.Config{}, s.run)
	if len(s.called) != 0 {
		t.Errorf("s.called = %v, want none", s.called)
	}
	if !errors.Is(err, errStop) {
		t.Errorf("err = %v, want %v", err, errStop)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want %v", err, context.Canceled)
	}
	v, err := retry.DoValue(ctx, retry.Config{}, func(context.Context) (int, error) { return 1, nil })
	if v != 0 {
		t.Errorf("v = %v, want 0", v)
	}
	if !errors.Is(err, errStop) {
		t.Errorf("never nil in place of the cancellation: err = %v, want %v", err, errStop)
	}
}

func TestCancelDuringWaitReturnsCauseAndLastError(t *testing.T) {
	for name, end := range map[string]error{"by a backoff": errBusy, "that an error asked for": retry.After(errBusy, time.Hour)} {
		t.Run("a wait "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(2*time.Second, func() { cancel(errStop) })
				s := newScript(io.EOF, end, nil)
				err := retry.Do(ctx, retry.Config{Backoff: doubling(0)}, s.run)
				if diff := cmp.Diff(seconds(0, 1), s.called); diff != "" {
					t.Errorf("s.called mismatch (-want +got):\n%s", diff)
				}
				if got := time.Since(s.start); got != 2*time.Second {
					t.Errorf("time.Since(s.start) = %v, want %v", got, 2*time.Second)
				}
				if !errors.Is(err, errStop) {
					t.Fatalf("err = %v, want %v", err, errStop)
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("err = %v, want %v", err, context.Canceled)
				}
				if !errors.Is(err, errBusy) {
					t.Errorf("err = %v, want %v", err, errBusy)
				}
				if errors.Is(err, io.EOF) {
					t.Errorf("err = %v, want another error", err)
				}
				if errors.Is(err, retry.ErrGaveUp) {
					t.Errorf("err = %v, want another error", err)
				}
				if got, want := fmt.Sprint(err), "retry: stopped after attempt 2: context canceled: shutting down: busy"; got != want {
					t.Errorf("err = %q, want %q", got, want)
				}
				if !wait.Interrupted(err) {
					t.Error("wait.Interrupted(err) is false")
				}
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
		if calls != 2 {
			t.Errorf("calls = %v, want 2", calls)
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("err = %v, want %v", err, context.Canceled)
		}
		if !errors.Is(err, errStop) {
			t.Errorf("the function knew only that it was canceled, the context knows why: err = %v, want %v", err, errStop)
		}
		if retry.IsConflict(err) {
			t.Errorf("%v: retry.IsConflict(err) is true", err)
		}
	})
}

func TestCancelDuringLastAttemptIsNotReportedAsGivingUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var seen retry.Attempt
	err := retry.Do(ctx, retry.Config{
		Backoff:   wait.Backoff{Steps: 1},
		OnAttempt: func(_ context.Context, a retry.Attempt) { seen = a },
	}, func(context.Context) error { cancel(); return errBusy })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want %v", err, context.Canceled)
	}
	if !errors.Is(err, errBusy) {
		t.Errorf("err = %v, want %v", err, errBusy)
	}
	if errors.Is(err, retry.ErrGaveUp) {
		t.Errorf("err = %v, want another error", err)
	}
	if want := (retry.Attempt{Number: 1, Err: errBusy, Last: true}); seen != want {
		t.Errorf("seen = %+v, want %+v", seen, want)
	}
}

func TestErrorWithCauseIsReturnedUnwrapped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failed := fmt.Errorf("store: put a: %w", context.Canceled)
	err := retry.Do(ctx, retry.Config{}, func(context.Context) error { cancel(); return failed })
	if err != failed {
		t.Errorf("err = %v, want %v", err, failed)
	}
}

func TestCancelDoesNotObscureDefiniteOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := retry.Do(ctx, retry.Config{}, func(context.Context) error { cancel(); return nil }); err != nil {
		t.Errorf("retry.Do: %v", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	err := retry.OnConflict(ctx, wait.Backoff{}, func(context.Context) error { cancel(); return io.EOF })
	if err != io.EOF {
		t.Errorf("err = %v, want %v", err, io.EOF)
	}
}

func TestTimeoutWithinAttemptIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(context.DeadlineExceeded, context.Canceled)
		if err := retry.Do(t.Context(), retry.Config{Backoff: doubling(0)}, s.run); err != nil {
			t.Fatalf("retry.Do: %v", err)
		}
		if diff := cmp.Diff(seconds(0, 1, 3), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestOnErrorReturnsNonRetriableErrorUnwrapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(errBusy, io.EOF)
		err := retry.OnError(t.Context(), doubling(5), func(err error) bool { return errors.Is(err, errBusy) }, s.run)
		if err != io.EOF {
			t.Errorf("err = %v, want %v", err, io.EOF)
		}
		if diff := cmp.Diff(seconds(0, 1), s.called); diff != "" {
			t.Errorf("s.called mismatch (-want +got):\n%s", diff)
		}
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
				if len(s.called) != tc.calls {
					t.Errorf("len(s.called) = %d, want %d: %v", len(s.called), tc.calls, s.called)
				}
				if !tc.fails {
					if err != nil {
						t.Error(err)
					}
					return
				}
				if !errors.Is(err, tc.errs[len(tc.errs)-1]) {
					t.Errorf("err = %v, want %v", err, tc.errs[len(tc.errs)-1])
				}
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
		if err != nil {
			t.Fatal(err)
		}
		if v != 3 {
			t.Errorf("v = %v, want 3", v)
		}

		n = 0
		v, err = retry.DoValue(t.Context(), retry.Config{Backoff: doubling(2)}, count)
		if !errors.Is(err, errBusy) {
			t.Fatalf("err = %v, want %v", err, errBusy)
		}
		if v != 0 {
			t.Errorf("a value returned with an error is dropped: v = %v, want 0", v)
		}
	})
}

func TestPanicsPassThrough(t *testing.T) {
	if got := panicOf(func() {
		_ = retry.Do(t.Context(), retry.Config{}, func(context.Context) error { panic("boom") })
	}); got != "boom" {
		t.Errorf("panic = %v, want %v", got, "boom")
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
