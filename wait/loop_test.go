package wait_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/wait"
)

// runs notes when a loop runs, and lets each run take a time.
type runs struct {
	start  time.Time
	take   []time.Duration // the i-th run; 0 for those beyond the end
	begins []time.Duration
	count  atomic.Int32 // len(begins), for another goroutine
}

func newRuns(take ...time.Duration) *runs { return &runs{start: time.Now(), take: take} }

func (r *runs) run(context.Context) {
	r.begins = append(r.begins, time.Since(r.start))
	r.count.Add(1)
	if i := len(r.begins) - 1; i < len(r.take) {
		time.Sleep(r.take[i])
	}
}

func seconds(ss ...float64) []time.Duration {
	ds := make([]time.Duration, 0, len(ss))
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

func TestPaceDeterminesLoopInterval(t *testing.T) {
	const second = time.Second
	type loop func(ctx context.Context, f func(context.Context)) error
	until := loop(func(ctx context.Context, f func(context.Context)) error { return wait.Until(ctx, second, f) })
	nonSliding := loop(func(ctx context.Context, f func(context.Context)) error { return wait.NonSlidingUntil(ctx, second, f) })
	jitter := func(pace wait.Pace) loop {
		return func(ctx context.Context, f func(context.Context)) error {
			return wait.JitterUntil(ctx, second, -1, pace, f)
		}
	}
	for _, tc := range []struct {
		name string
		loop loop
		take []time.Duration
		want []time.Duration
	}{
		{"sliding: quick runs", until, nil, seconds(0, 1, 2, 3, 4, 5)},
		{"sliding: a run's own time comes on top", until, seconds(0.5, 0, 2), seconds(0, 1.5, 2.5, 5.5)},
		{"non-sliding: quick runs", nonSliding, nil, seconds(0, 1, 2, 3, 4, 5)},
		{"non-sliding: a run's own time is within", nonSliding, seconds(0.5, 0.9, 0), seconds(0, 1, 2, 3, 4, 5)},
		{"non-sliding: a run that takes one interval is followed at once", nonSliding, seconds(1), seconds(0, 1, 2, 3, 4, 5)},
		{"non-sliding: a late run is back on the grid", nonSliding, seconds(1.5), seconds(0, 1.5, 2, 3, 4, 5)},
		{"non-sliding: a run that takes two intervals is followed by one at once", nonSliding, seconds(2), seconds(0, 2, 3, 4, 5)},
		{"non-sliding: missed rounds are one", nonSliding, seconds(0, 3.5), seconds(0, 1, 4.5, 5)},
		{"non-sliding: always late", nonSliding, seconds(1.5, 1.5, 1.5, 1.5), seconds(0, 1.5, 3, 4.5)},
		{"a negative jitter is ignored, sliding", jitter(wait.Sliding), seconds(0.5), seconds(0, 1.5, 2.5, 3.5, 4.5, 5.5)},
		{"a negative jitter is ignored, non-sliding", jitter(wait.NonSliding), seconds(0.5), seconds(0, 1, 2, 3, 4, 5)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5999*time.Millisecond)
				defer cancel()
				r := newRuns(tc.take...)
				if err := tc.loop(ctx, r.run); err != nil {
					t.Fatalf("tc.loop(ctx, r.run): %v", err)
				}
				if diff := cmp.Diff(tc.want, r.begins); diff != "" {
					t.Errorf("r.begins mismatch (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLoopWaitsFullInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRuns()
		done := make(chan error)
		go func() { done <- wait.Until(ctx, time.Minute, r.run) }()
		synctest.Wait()
		if got := r.count.Load(); got != 1 {
			t.Fatalf("the first run is immediate: r.count.Load() = %v, want 1", got)
		}
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if got := r.count.Load(); got != 1 {
			t.Fatalf("r.count.Load() = %v, want 1", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := r.count.Load(); got != 2 {
			t.Fatalf("r.count.Load() = %v, want 2", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatalf("<-done: %v", err)
		}
		if got := time.Since(r.start); got != time.Minute {
			t.Errorf("a cancel ends the pause at once: time.Since(r.start) = %v, want %v", got, time.Minute)
		}
	})
}

func TestEndedContextNeverRunsLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := func(context.Context) { t.Error("f was called") }
	for range 50 { // select is random
		if err := wait.Until(ctx, 0, f); err != nil {
			t.Errorf("wait.Until(ctx, 0, f): %v", err)
		}
		if err := wait.NonSlidingUntil(ctx, 0, f); err != nil {
			t.Errorf("wait.NonSlidingUntil(ctx, 0, f): %v", err)
		}
		if err := wait.JitterUntil(ctx, time.Second, 1, wait.Sliding, f); err != nil {
			t.Errorf("wait.JitterUntil: %v", err)
		}
	}
}

func TestLoopCanceledDuringRunEndsAfterIt(t *testing.T) {
	for _, pace := range []wait.Pace{wait.Sliding, wait.NonSliding} {
		for range 50 { // select is random
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				if err := wait.JitterUntil(ctx, time.Second, 0, pace, func(context.Context) {
					n++
					cancel()
					time.Sleep(time.Second)
				}); err != nil {
					t.Fatalf("wait.JitterUntil: %v", err)
				}
				if n != 1 {
					t.Errorf("n = %v, want 1", n)
				}
			})
		}
	}
}

func TestLoopWithZeroPeriodRunsWithoutPause(t *testing.T) {
	for _, pace := range []wait.Pace{wait.Sliding, wait.NonSliding} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			n, start := 0, time.Now()
			if err := wait.JitterUntil(ctx, 0, 1, pace, func(context.Context) {
				if n++; n == 100 {
					cancel()
				}
			}); err != nil {
				t.Fatalf("wait.JitterUntil: %v", err)
			}
			if n != 100 {
				t.Errorf("n = %v, want 100", n)
			}
			if got := time.Since(start); got != 0 {
				t.Errorf("time.Since(start) = %v, want 0", got)
			}
		})
	}
}

func TestJitterIsDrawnPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := newRuns()
		if err := wait.JitterUntil(ctx, time.Second, 0.5, wait.Sliding, r.run); err != nil {
			t.Fatalf("wait.JitterUntil: %v", err)
		}
		seen := map[time.Duration]bool{}
		for i := range r.begins[1:] {
			d := r.begins[i+1] - r.begins[i]
			if d < time.Second {
				t.Fatalf("d = %v, want at least %v", d, time.Second)
			}
			if d > 1500*time.Millisecond {
				t.Fatalf("d = %v, want at most %v", d, 1500*time.Millisecond)
			}
			seen[d] = true
		}
		if got := len(seen); got <= 100 {
			t.Errorf("len(seen) = %v, want more than 100", got)
		}
	})
}

func TestLoopReturnsPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := wait.Until(t.Context(), time.Second, func(context.Context) {
			if n++; n == 3 {
				_ = explode("boom")
			}
		})
		var p *wait.PanicError
		if !errors.As(err, &p) {
			t.Fatalf("err = %v, want one of type *wait.PanicError", err)
		}
		if got := string(p.Stack); !strings.Contains(got, "explode") {
			t.Errorf("string(p.Stack) = %q, want it to contain %q", got, "explode")
		}
		if n != 3 {
			t.Errorf("n = %v, want 3", n)
		}
	})
}

func TestBackoffUntilSlowsDownWhileItFails(t *testing.T) {
	for pace, want := range map[wait.Pace][]time.Duration{
		//               ok f  f  f  f   ok  f   f   (each takes 500ms)
		wait.Sliding:    seconds(0, 1.5, 3, 5.5, 10, 15.5, 17, 18.5),
		wait.NonSliding: seconds(0, 1, 2, 4, 8, 13, 14, 15),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRuns(seconds(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)...)
			ctx, cancel := context.WithCancel(t.Context())
			b := wait.Backoff{Duration: time.Second, Factor: 2, Cap: 5 * time.Second}
			if err := wait.BackoffUntil(ctx, b, pace, func(ctx context.Context) error {
				r.run(ctx)
				switch len(r.begins) {
				case 1, 6:
					return nil
				case 8:
					cancel()
				}
				return io.EOF
			}); err != nil {
				t.Fatalf("wait.BackoffUntil: %v", err)
			}
			if diff := cmp.Diff(want, r.begins); diff != "" {
				t.Errorf("r.begins mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackoffUntilEndsAfterConsecutiveFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, start := 0, time.Now()
		err := wait.BackoffUntil(t.Context(), wait.Backoff{Duration: time.Second, Steps: 3}, wait.Sliding, func(context.Context) error {
			if n++; n == 3 {
				return nil
			}
			return fmt.Errorf("run %d", n)
		})
		if got := fmt.Sprint(err); got != "run 6" {
			t.Errorf("err = %q, want %q", got, "run 6")
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("it has waited after the last run: time.Since(start) = %v, want %v", got, 5*time.Second)
		}
	})
}

func TestBackoffUntilReportsOnlyUnrecoveredPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := wait.BackoffUntil(t.Context(), wait.Backoff{Duration: 1}, wait.Sliding, func(ctx context.Context) error {
			if n++; n == 3 {
				return explode("the real one")
			}
			return wait.Call(ctx, func(context.Context) error { return explode("handled") })
		})
		if got, want := fmt.Sprint(err), "wait: recover from panic: the real one"; got != want {
			t.Errorf("err = %q, want %q", got, want)
		}
	})
}

func TestBackoffUntilDoesNotReportCancelAsFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := wait.BackoffUntil(ctx, wait.Backoff{Steps: 1}, wait.Sliding, func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}); err != nil {
		t.Errorf("wait.BackoffUntil: %v", err)
	}
}
