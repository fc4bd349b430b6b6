package wait_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
				require.NoError(t, tc.loop(ctx, r.run))
				assert.Equal(t, tc.want, r.begins)
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
		require.EqualValues(t, 1, r.count.Load(), "the first run is immediate")
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		require.EqualValues(t, 1, r.count.Load())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, 2, r.count.Load())
		cancel()
		require.NoError(t, <-done)
		assert.Equal(t, time.Minute, time.Since(r.start), "a cancel ends the pause at once")
	})
}

func TestEndedContextNeverRunsLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := func(context.Context) { t.Error("f was called") }
	for range 50 { // select is random
		assert.NoError(t, wait.Until(ctx, 0, f))
		assert.NoError(t, wait.NonSlidingUntil(ctx, 0, f))
		assert.NoError(t, wait.JitterUntil(ctx, time.Second, 1, wait.Sliding, f))
	}
}

func TestLoopCanceledDuringRunEndsAfterIt(t *testing.T) {
	for _, pace := range []wait.Pace{wait.Sliding, wait.NonSliding} {
		for range 50 { // select is random
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				n := 0
				require.NoError(t, wait.JitterUntil(ctx, time.Second, 0, pace, func(context.Context) {
					n++
					cancel()
					time.Sleep(time.Second)
				}))
				assert.Equal(t, 1, n)
			})
		}
	}
}

func TestLoopWithZeroPeriodRunsWithoutPause(t *testing.T) {
	for _, pace := range []wait.Pace{wait.Sliding, wait.NonSliding} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			n, start := 0, time.Now()
			require.NoError(t, wait.JitterUntil(ctx, 0, 1, pace, func(context.Context) {
				if n++; n == 100 {
					cancel()
				}
			}))
			assert.Equal(t, 100, n)
			assert.Zero(t, time.Since(start))
		})
	}
}

func TestJitterIsDrawnPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r := newRuns()
		require.NoError(t, wait.JitterUntil(ctx, time.Second, 0.5, wait.Sliding, r.run))
		seen := map[time.Duration]bool{}
		for i := range r.begins[1:] {
			d := r.begins[i+1] - r.begins[i]
			require.GreaterOrEqual(t, d, time.Second)
			require.LessOrEqual(t, d, 1500*time.Millisecond)
			seen[d] = true
		}
		assert.Greater(t, len(seen), 100)
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
		require.ErrorAs(t, err, &p)
		assert.Contains(t, string(p.Stack), "explode")
		assert.Equal(t, 3, n)
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
			require.NoError(t, wait.BackoffUntil(ctx, b, pace, func(ctx context.Context) error {
				r.run(ctx)
				switch len(r.begins) {
				case 1, 6:
					return nil
				case 8:
					cancel()
				}
				return io.EOF
			}))
			assert.Equal(t, want, r.begins)
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
		assert.EqualError(t, err, "run 6")
		assert.Equal(t, 5*time.Second, time.Since(start), "it has waited after the last run")
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
		assert.EqualError(t, err, "panic: the real one")
	})
}

func TestBackoffUntilDoesNotReportCancelAsFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	assert.NoError(t, wait.BackoffUntil(ctx, wait.Backoff{Steps: 1}, wait.Sliding, func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	}))
}
