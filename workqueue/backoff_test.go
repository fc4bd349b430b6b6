package workqueue_test

import (
	"testing"
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
