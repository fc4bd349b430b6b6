package workqueue_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// A limiter that counts for itself, and tells how many keys it knows.
type counting interface {
	workqueue.RateLimiter[int]
	Known() int
}

func TestLimitersStayBoundedWithoutForget(t *testing.T) {
	for name, limiter := range map[string]func() counting{
		"exponential": func() counting { return workqueue.NewItemExponentialFailureRateLimiter[int](1, time.Second) },
		"jittered":    func() counting { return workqueue.NewItemJitteredRateLimiter[int](1, time.Second, nil) },
		"fast slow":   func() counting { return workqueue.NewItemFastSlowRateLimiter[int](1, time.Second, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := limiter()
				most := 0
				for k := range 25_000 {
					r.When(k)
					time.Sleep(4 * time.Second)
					most = max(most, r.Known())
				}
				require.LessOrEqual(t, most, 2*900, "those of two hours")
				time.Sleep(2 * time.Hour)
				require.Zero(t, r.NumRequeues(0))
				require.Zero(t, r.Known())
			})
		})
	}
}

// A key that fails again and again, as slowly as its delays allow, keeps its count.
func TestLimiterForgetsKeyAfterOneToTwoPeriods(t *testing.T) {
	for _, c := range []struct {
		new    func() counting
		period time.Duration
	}{
		{func() counting { return workqueue.NewItemExponentialFailureRateLimiter[int](1, time.Minute) }, time.Hour},
		{func() counting { return workqueue.NewItemExponentialFailureRateLimiter[int](1, 24*time.Hour) }, 48 * time.Hour},
		{func() counting { return workqueue.NewItemJitteredRateLimiter[int](1, 24*time.Hour, nil) }, 48 * time.Hour},
		{func() counting { return workqueue.NewItemFastSlowRateLimiter[int](1, 24*time.Hour, 1) }, 48 * time.Hour},
		{func() counting { return workqueue.NewItemFastSlowRateLimiter[int](24*time.Hour, 1, 1) }, 48 * time.Hour},
	} {
		for offset := range 4 {
			synctest.Test(t, func(t *testing.T) {
				r := c.new()
				time.Sleep(c.period * time.Duration(offset) / 3) // anywhere in the first period
				for n := range 10 {
					require.Equal(t, n, r.NumRequeues(1))
					r.When(1)
					time.Sleep(c.period)
				}
				require.Equal(t, 10, r.NumRequeues(1))
				time.Sleep(c.period)
				require.Zero(t, r.NumRequeues(1))
			})
		}
	}
}

// Calls for other keys do not shift the periods.
func TestLimiterForgetsOnTimeDespiteOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := workqueue.NewItemExponentialFailureRateLimiter[int](1, time.Second)
		r.When(1)
		time.Sleep(3 * time.Hour / 2)
		r.When(2)
		require.Equal(t, 1, r.NumRequeues(1))
		time.Sleep(time.Hour/2 - 1)
		require.Equal(t, 1, r.NumRequeues(1))
		time.Sleep(time.Nanosecond)
		require.Zero(t, r.NumRequeues(1))
		require.Equal(t, 1, r.NumRequeues(2))
	})
}

func TestForgetClearsBothPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := workqueue.NewItemExponentialFailureRateLimiter[int](1, time.Second)
		r.When(1)
		r.When(2)
		time.Sleep(time.Hour)
		r.When(2)
		require.Equal(t, 2, r.Known(), "a key is known once")
		require.Equal(t, 2, r.NumRequeues(2))
		r.Forget(1)
		r.Forget(2)
		require.Zero(t, r.Known())
		require.Zero(t, r.NumRequeues(1))
		require.EqualValues(t, 1, r.When(2))
	})
}

func TestLimiterWithLongestDelayForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := workqueue.NewItemExponentialFailureRateLimiter[int](1, math.MaxInt64)
		r.When(1)
		time.Sleep(200 * 365 * 24 * time.Hour)
		require.Equal(t, 1, r.NumRequeues(1))
	})
}

func TestJitterTakesUpToHalfTheDelay(t *testing.T) {
	random := 0.0
	r := workqueue.NewItemJitteredRateLimiter[string](time.Second, 5*time.Second, func() float64 { return random })
	for _, c := range []struct {
		random float64
		want   time.Duration
	}{
		{0, time.Second}, {0.5, 1500 * time.Millisecond}, {0.25, 3500 * time.Millisecond}, {0, 5 * time.Second}, {0.5, 3750 * time.Millisecond},
	} {
		random = c.random
		require.Equal(t, c.want, r.When("k"))
	}
	random = math.Nextafter(1, 0)
	require.InDelta(t, 2500*time.Millisecond, r.When("k"), 2)
	require.Equal(t, 6, r.NumRequeues("k"))
	r.Forget("k")
	require.Zero(t, r.NumRequeues("k"))
	require.InDelta(t, 500*time.Millisecond, r.When("k"), 2)
}

func TestJitterSpreadsKeysWithoutOverflow(t *testing.T) {
	r := workqueue.NewItemJitteredRateLimiter[int](math.MaxInt64, math.MaxInt64, nil)
	seen := map[time.Duration]bool{}
	for k := range 100 {
		d := r.When(k)
		require.GreaterOrEqual(t, d, time.Duration(math.MaxInt64/2))
		seen[d] = true
	}
	require.Greater(t, len(seen), 90)
}
