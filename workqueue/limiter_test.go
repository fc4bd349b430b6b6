package workqueue_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestBackoffDependsOnNumberOfFailuresForItemLimitersOnly(t *testing.T) {
	half := func() float64 { return 0.5 }
	exponential := workqueue.NewItemExponentialFailureRateLimiter[string](time.Second, 5*time.Second)
	fastSlow := workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Minute, 2)
	for what, c := range map[string]struct {
		limiter workqueue.RateLimiter[string]
		want    []time.Duration // for -1, 0, 1, 2, and 3 failures
	}{
		"the default": {nil, []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond}},
		"exponential": {exponential, seconds(1, 1, 1, 2, 4)},
		"with jitter": {workqueue.NewItemJitteredRateLimiter[string](time.Second, 5*time.Second, half), seconds(0.75, 0.75, 0.75, 1.5, 3)},
		"fast, slow":  {fastSlow, seconds(1, 1, 1, 1, 60)},
		"the longest": {workqueue.NewMaxOfRateLimiter[string](exponential, fastSlow), seconds(1, 1, 1, 2, 60)},
		"at most":     {workqueue.NewWithMaxWaitRateLimiter[string](exponential, 3*time.Second), seconds(1, 1, 1, 2, 3)},
	} {
		for range 2 {
			for i, want := range c.want {
				require.Equal(t, want, workqueue.Backoff(c.limiter, "k", i-1), "%s: %d failures", what, i-1)
			}
		}
		if c.limiter != nil {
			require.Zero(t, c.limiter.NumRequeues("k"), "%s: its own count does not change", what)
		}
	}
	bucket := &workqueue.BucketRateLimiter[string]{Limiter: rate.NewLimiter(0, 1)}
	require.Zero(t, workqueue.Backoff[string](bucket, "k", 5))
	require.Greater(t, workqueue.Backoff[string](bucket, "k", 5), time.Hour, "the first call has taken the only token")
}

func seconds(ss ...float64) (ds []time.Duration) {
	for _, s := range ss {
		ds = append(ds, time.Duration(s*float64(time.Second)))
	}
	return ds
}

func TestExponentialLimiterDoublesPerKeyUpToMax(t *testing.T) {
	r := workqueue.NewItemExponentialFailureRateLimiter[string](time.Millisecond, 10*time.Millisecond)
	for _, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		require.Equal(t, want*time.Millisecond, r.When("a"))
	}
	require.Equal(t, time.Millisecond, r.When("b"))
	require.Equal(t, 6, r.NumRequeues("a"))
	r.Forget("a")
	r.Forget("unknown")
	require.Zero(t, r.NumRequeues("a"))
	require.Equal(t, time.Millisecond, r.When("a"))
	require.Equal(t, 1, r.NumRequeues("b"))
}

func TestExponentialLimiterNeverOverflows(t *testing.T) {
	for _, base := range []time.Duration{1, 3, time.Hour, math.MaxInt64} {
		for _, limit := range []time.Duration{time.Hour, math.MaxInt64} {
			r := workqueue.NewItemExponentialFailureRateLimiter[string](base, limit)
			last := time.Duration(0)
			for range 200 {
				d := r.When("k")
				require.GreaterOrEqual(t, d, last)
				require.LessOrEqual(t, d, limit)
				last = d
			}
			require.Equal(t, limit, last)
		}
	}
}

func TestZeroDelayDoesNotGrow(t *testing.T) {
	r := workqueue.NewItemExponentialFailureRateLimiter[string](0, time.Hour)
	for range 200 {
		require.Zero(t, r.When("k"))
	}
	q := must(workqueue.New(workqueue.Config[string]{RateLimiter: workqueue.NewItemExponentialFailureRateLimiter[string](0, time.Hour)}))
	for range 200 {
		q.AddRateLimited("k")
		_, ok := tryGet(q)
		require.True(t, ok, "it is ready immediately")
		q.Done("k")
	}
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

func TestFastSlowLimiterIsFastAtFirst(t *testing.T) {
	r := workqueue.NewItemFastSlowRateLimiter[string](time.Millisecond, time.Second, 2)
	for _, want := range []time.Duration{time.Millisecond, time.Millisecond, time.Second, time.Second} {
		require.Equal(t, want, r.When("k"))
	}
	require.Equal(t, 4, r.NumRequeues("k"))
	r.Forget("k")
	require.Equal(t, time.Millisecond, r.When("k"))
}

func TestBucketLimiterSpreadsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &workqueue.BucketRateLimiter[string]{Limiter: rate.NewLimiter(10, 1)}
		require.Zero(t, r.When("a"))
		require.Equal(t, 100*time.Millisecond, r.When("b"))
		require.Equal(t, 200*time.Millisecond, r.When("a"))
		r.Forget("a")
		require.Zero(t, r.NumRequeues("a"))
	})
}

func TestMaxOfAsksAllLimitersAndMaxWaitCaps(t *testing.T) {
	slow := workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Second, 0)
	fast := workqueue.NewItemExponentialFailureRateLimiter[string](time.Millisecond, time.Hour)
	r := workqueue.NewWithMaxWaitRateLimiter(workqueue.NewMaxOfRateLimiter[string](fast, slow), 3*time.Second)
	for range 10 { // 1 ms to 512 ms
		require.Equal(t, time.Second, r.When("k"))
	}
	for _, ms := range []time.Duration{1024, 2048, 3000, 3000} {
		require.Equal(t, ms*time.Millisecond, r.When("k"))
	}
	require.Equal(t, 14, r.NumRequeues("k"))
	r.Forget("k")
	require.Zero(t, fast.NumRequeues("k"))
	require.Zero(t, slow.NumRequeues("k"))
}

// The first failure of a key does not wait behind those of other keys.
func TestFirstFailureDoesNotQueueBehindOthers(t *testing.T) {
	r := workqueue.DefaultControllerRateLimiter[int]()
	for k := range 1000 {
		r.When(k)
	}
	require.Equal(t, 5*time.Millisecond, r.When(1000))
}

func TestLimitersAreSafeForConcurrentUse(t *testing.T) {
	for _, r := range []workqueue.RateLimiter[int]{
		workqueue.DefaultControllerRateLimiter[int](),
		workqueue.NewItemFastSlowRateLimiter[int](0, 0, 1),
		workqueue.NewMaxOfRateLimiter[int](workqueue.NewItemExponentialFailureRateLimiter[int](time.Millisecond, time.Hour)),
	} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for k := range 100 {
					r.When(k)
				}
			})
		}
		wg.Wait()
		require.Equal(t, 4, r.NumRequeues(7))
	}
}

func TestLimiterConstructorsPanicOnInvalidArguments(t *testing.T) {
	limiter := workqueue.DefaultControllerRateLimiter[string]()
	for want, call := range map[string]func(){
		"NewItemExponentialFailureRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemExponentialFailureRateLimiter[string](-1, -5)
		},
		"NewItemExponentialFailureRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemExponentialFailureRateLimiter[string](1, -5)
		},
		"NewItemJitteredRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemJitteredRateLimiter[string](-1, 5, nil)
		},
		"NewItemJitteredRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemJitteredRateLimiter[string](1, -5, nil)
		},
		"NewItemFastSlowRateLimiter: the delay -1ns is negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](-1, 5, 1)
		},
		"NewItemFastSlowRateLimiter: the delay -5ns is negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](1, -5, 1)
		},
		"NewItemFastSlowRateLimiter: maxAttempts is -2, must not be negative": func() {
			workqueue.NewItemFastSlowRateLimiter[string](1, 5, -2)
		},
		"NewWithMaxWaitRateLimiter: the delay -1s is negative": func() {
			workqueue.NewWithMaxWaitRateLimiter(limiter, -time.Second)
		},
		"NewWithMaxWaitRateLimiter: the limiter is nil": func() {
			workqueue.NewWithMaxWaitRateLimiter[string](nil, 1)
		},
		"NewMaxOfRateLimiter: there is no limiter, or one is nil": func() {
			workqueue.NewMaxOfRateLimiter(limiter, nil)
		},
	} {
		require.PanicsWithValue(t, "workqueue: "+want, call)
	}
	require.Panics(t, func() { workqueue.NewMaxOfRateLimiter[string]() })
}

// A limiter that counts for itself, and returns how many keys it counts.
type counting interface {
	workqueue.RateLimiter[int]
	Keys() int
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
					most = max(most, r.Keys())
				}
				require.LessOrEqual(t, most, 2*900, "those of two hours")
				time.Sleep(2 * time.Hour)
				require.Zero(t, r.NumRequeues(0))
				require.Zero(t, r.Keys())
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
		require.Equal(t, 2, r.Keys(), "a key counts once")
		require.Equal(t, 2, r.NumRequeues(2))
		r.Forget(1)
		r.Forget(2)
		require.Zero(t, r.Keys())
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
