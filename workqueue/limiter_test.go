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

func TestDefaultLimitersInitialDelays(t *testing.T) {
	require.Equal(t, 5*time.Millisecond, workqueue.DefaultControllerRateLimiter[string]().When("k"))
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
