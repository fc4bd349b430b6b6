package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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
				if err := wait.PollUntilContextCancel(t.Context(), time.Second, tc.start, r.trueAt(5)); err != nil {
					t.Fatalf("wait.PollUntilContextCancel: %v", err)
				}
				if diff := cmp.Diff(tc.want, r.begins); diff != "" {
					t.Errorf("r.begins mismatch (-want +got):\n%s", diff)
				}
				if got := time.Since(r.start); got != tc.want[4] {
					t.Errorf("nothing is waited for once the condition is true: time.Since(r.start) = %v, want %v", got, tc.want[4])
				}
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
		if got := r.count.Load(); got != 0 {
			t.Fatalf("r.count.Load() = %v, want 0", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := r.count.Load(); got != 1 {
			t.Fatalf("r.count.Load() = %v, want 1", got)
		}
		if err := <-done; err != nil {
			t.Fatalf("<-done: %v", err)
		}
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
			if err == nil {
				t.Fatal("err = nil, want an error")
			}
			if !wait.Interrupted(err) {
				t.Fatal("wait.Interrupted(err) is false")
			}
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
				if got := time.Since(start); got != 5*time.Second {
					t.Errorf("time.Since(start) = %v, want %v", got, 5*time.Second)
				}
				if !errors.Is(err, wait.ErrTimeout) {
					t.Errorf("err = %v, want %v", err, wait.ErrTimeout)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want %v", err, context.DeadlineExceeded)
				}
				if errors.Is(err, context.Canceled) {
					t.Errorf("err = %v, want another error", err)
				}
				if !wait.Interrupted(err) {
					t.Error("wait.Interrupted(err) is false")
				}
				if got := fmt.Sprint(err); !strings.Contains(got, "wait: timeout after 5s") {
					t.Errorf("err = %q, want an error that contains %q", got, "wait: timeout after 5s")
				}
			})
		})
		t.Run("cancellation/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(2500*time.Millisecond, func() { cancel(errStop) })
				start := time.Now()
				err := poll(ctx)
				if got := time.Since(start); got != 2500*time.Millisecond {
					t.Errorf("time.Since(start) = %v, want %v", got, 2500*time.Millisecond)
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("err = %v, want %v", err, context.Canceled)
				}
				if !errors.Is(err, errStop) {
					t.Errorf("err = %v, want %v", err, errStop)
				}
				if errors.Is(err, wait.ErrTimeout) {
					t.Errorf("err = %v, want another error", err)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want another error", err)
				}
				if !wait.Interrupted(err) {
					t.Error("wait.Interrupted(err) is false")
				}
			})
		})
		t.Run("deadline of the caller/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errStop)
				defer cancel()
				err := poll(ctx)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want %v", err, context.DeadlineExceeded)
				}
				if !errors.Is(err, errStop) {
					t.Errorf("err = %v, want %v", err, errStop)
				}
				if errors.Is(err, wait.ErrTimeout) {
					t.Errorf("err = %v, want another error", err)
				}
			})
		})
	}
}

func TestConditionDueAtTimeoutIsNotCalled(t *testing.T) {
	for range 50 { // the bubble runs timers of one moment in random order
		synctest.Test(t, func(t *testing.T) {
			r := newRuns()
			err := wait.PollUntilContextTimeout(t.Context(), time.Second, 3*time.Second, wait.Immediate, r.trueAt(4))
			if !errors.Is(err, wait.ErrTimeout) {
				t.Fatalf("err = %v, want %v", err, wait.ErrTimeout)
			}
			if got, want := fmt.Sprint(err), "wait: condition not met: context deadline exceeded: wait: timeout after 3s"; got != want {
				t.Fatalf("err = %q, want %q", got, want)
			}
			if diff := cmp.Diff(seconds(0, 1, 2), r.begins); diff != "" {
				t.Fatalf("r.begins mismatch (-want +got):\n%s", diff)
			}
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
		if err != io.EOF {
			t.Errorf("an error counts, even with true: err = %v, want %v", err, io.EOF)
		}
		if n != 2 {
			t.Errorf("n = %v, want 2", n)
		}
		if wait.Interrupted(err) {
			t.Error("wait.Interrupted(err) is true")
		}

		ctx, cancel := context.WithCancelCause(t.Context())
		err = wait.For(ctx, func(context.Context) (bool, error) { cancel(errStop); return false, io.EOF })
		if err != io.EOF {
			t.Errorf("another failure is not a cancellation, even joined with one: err = %v, want %v", err, io.EOF)
		}

		inner := fmt.Errorf("remote call: %w", context.DeadlineExceeded)
		err = wait.For(t.Context(), func(context.Context) (bool, error) { return false, inner })
		if err != inner {
			t.Errorf("an inner timeout is not the context's: err = %v, want %v", err, inner)
		}
	})
}

func TestConditionPanicIsReturned(t *testing.T) {
	err := wait.For(t.Context(), func(context.Context) (bool, error) { return false, explode("boom") })
	var p *wait.PanicError
	if !errors.As(err, &p) {
		t.Fatalf("err = %v, want one of type *wait.PanicError", err)
	}
	if got := string(p.Stack); !strings.Contains(got, "explode") {
		t.Errorf("string(p.Stack) = %q, want it to contain %q", got, "explode")
	}
}

func TestConditionTrueDuringTimeoutCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := wait.For(ctx, func(context.Context) (bool, error) { cancel(); return true, nil }); err != nil {
		t.Errorf("wait.For: %v", err)
	}
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
				if diff := cmp.Diff(tc.want, r.begins); diff != "" {
					t.Errorf("r.begins mismatch (-want +got):\n%s", diff)
				}
				if got, want := time.Since(r.start), tc.want[len(tc.want)-1]; got != want {
					t.Errorf("time.Since(r.start) = %v, want %v", got, want)
				}
				if !errors.Is(err, wait.ErrTimeout) {
					t.Fatalf("err = %v, want %v", err, wait.ErrTimeout)
				}
				if !wait.Interrupted(err) {
					t.Error("wait.Interrupted(err) is false")
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want another error", err)
				}
			})
		})
	}
}

func TestZeroStepsMeansUntilContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		if err := wait.ExponentialBackoffWithContext(t.Context(), wait.Backoff{Duration: time.Second}, r.trueAt(100)); err != nil {
			t.Fatalf("wait.ExponentialBackoffWithContext: %v", err)
		}
		if len(r.begins) != 100 {
			t.Errorf("len(r.begins) = %d, want 100: %v", len(r.begins), r.begins)
		}
	})
}

func TestExponentialBackoffWaitsFromEndOfCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns(seconds(5, 5)...)
		if err := wait.ExponentialBackoffWithContext(t.Context(), wait.Backoff{Duration: time.Second, Factor: 2}, r.trueAt(3)); err != nil {
			t.Fatalf("wait.ExponentialBackoffWithContext: %v", err)
		}
		if diff := cmp.Diff(seconds(0, 6, 13), r.begins); diff != "" {
			t.Errorf("r.begins mismatch (-want +got):\n%s", diff)
		}
	})
}

func TestForSlowsDownToOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRuns()
		if err := wait.For(t.Context(), r.trueAt(50)); err != nil {
			t.Fatalf("wait.For(ctx, r.trueAt(50)): %v", err)
		}
		if r.begins[0] != 0 {
			t.Errorf("r.begins[0] = %v, want 0", r.begins[0])
		}
		if math.Abs(float64(r.begins[1]-10*time.Millisecond)) > float64(time.Millisecond) {
			t.Errorf("r.begins[1] = %v, want %v ± %v", r.begins[1], 10*time.Millisecond, float64(time.Millisecond))
		}
		last := r.begins[49] - r.begins[48]
		if last < time.Second {
			t.Errorf("last = %v, want at least %v", last, time.Second)
		}
		if last > 1100*time.Millisecond {
			t.Errorf("last = %v, want at most %v", last, 1100*time.Millisecond)
		}
	})
}

func TestConditionErrorWithCauseIsNotWrappedAgain(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	err := wait.For(ctx, func(ctx context.Context) (bool, error) {
		cancel(errStop)
		return false, wait.Sleep(ctx, time.Second)
	})
	if !errors.Is(err, errStop) {
		t.Fatalf("err = %v, want %v", err, errStop)
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v, want %v", err, context.Canceled)
	}
	if got := strings.Count(err.Error(), errStop.Error()); got != 1 {
		t.Errorf("%v: strings.Count(err.Error(), errStop.Error()) = %v, want 1", err, got)
	}
}

func TestConditionContextEndsWithPoll(t *testing.T) {
	var lasting context.Context
	if err := wait.PollUntilContextTimeout(t.Context(), time.Second, time.Hour, wait.Immediate,
		func(ctx context.Context) (bool, error) { lasting = ctx; return true, nil }); err != nil {
		t.Fatalf("wait.PollUntilContextTimeout: %v", err)
	}
	if err := lasting.Err(); err == nil {
		t.Error("its timer is leaked: lasting.Err() = nil, want an error")
	}
}
