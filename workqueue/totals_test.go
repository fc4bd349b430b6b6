package workqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// counts returns the buckets of h that are not empty, by their upper bound.
func counts(h workqueue.Histogram) map[string]uint64 {
	by := map[string]uint64{}
	for i, n := range h.Counts {
		bound := "more"
		if i < len(h.Bounds) {
			bound = h.Bounds[i].String()
		}
		if n > 0 {
			by[bound] = n
		}
	}
	return by
}

func TestTotalsMatchHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{
			Timestamps: true, MaxAttempts: 2, Debounce: time.Second, RateLimiter: limiterOf(time.Second), Logger: discard,
		}))
		q.AddWith("a", workqueue.AddOptions{After: -1})
		q.Add("a") // is ready already
		sleep(5 * time.Microsecond)
		q.Get()
		q.AddWith("a", workqueue.AddOptions{After: -1}) // dirty
		q.AddRateLimited("a")                           // about to be tried, and counted all the same
		sleep(10 * time.Microsecond)                    // a bound belongs to its bucket
		q.Done("a")
		sleep(time.Hour)
		q.Get()
		q.AddRateLimited("a") // the budget is spent, so this is no delay
		sleep(2 * time.Hour)
		q.Done("a")
		q.Add("b") // in its quiet time
		require.EqualValues(t, 2, q.Totals().Added)
		sleep(time.Second)
		q.AddAfter("c", time.Second)
		sleep(time.Second)

		got := q.Totals()
		assert.EqualValues(t, 4, got.Added, "a twice, b, and c")
		assert.EqualValues(t, 4, got.Delayed, "After: -1 twice, AddRateLimited, AddAfter")
		assert.Equal(t, map[string]uint64{"10µs": 1, "more": 1}, counts(got.Waited))
		assert.Equal(t, map[string]uint64{"10µs": 1, "more": 1}, counts(got.Worked))
		assert.Equal(t, time.Hour+5*time.Microsecond, got.Waited.Sum)
		assert.Equal(t, 2*time.Hour+10*time.Microsecond, got.Worked.Sum)
		assert.EqualValues(t, 2, got.Worked.Count())
		assert.Len(t, got.Waited.Counts, len(got.Waited.Bounds)+1)
		assert.Equal(t, 10*time.Nanosecond, got.Waited.Bounds[0])
		assert.Equal(t, 1000*time.Second, got.Waited.Bounds[11])

		got.Waited.Counts[0], got.Waited.Bounds[0] = 99, 99
		assert.Zero(t, q.Totals().Waited.Counts[0], "the caller has a copy")
		q.ShutDown()
	})
}

func TestTimerAndShutDownCountInTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{Debounce: time.Second}))
		for key := range 300 {
			q.Add(key)
		}
		q.ShutDown()
		assert.EqualValues(t, 300, q.Totals().Added)
		assert.Zero(t, q.Totals().Waited.Count(), "without Timestamps")
	})
}

func TestOldestReadyIsAgeOfLongestWaitingKey(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  workqueue.Config[string]
	}{
		{"plain", workqueue.Config[string]{}},
		{"in groups", workqueue.Config[string]{Group: func(key string) string { return key }, GroupLimit: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.cfg.Timestamps = true
				q := must(workqueue.New(test.cfg))
				assert.Zero(t, q.OldestReady())
				q.AddWith("old", workqueue.AddOptions{Priority: -1})
				sleep(time.Second)
				for i := range 1000 { // more groups than one hold of the lock looks at
					q.AddWith(fmt.Sprint("high", i), workqueue.AddOptions{Priority: 1})
				}
				q.Add("new")
				sleep(time.Second)
				assert.Equal(t, 2*time.Second, q.OldestReady())
				assert.True(t, q.Cancel("old"))
				assert.Equal(t, time.Second, q.OldestReady())
				for range 1000 {
					q.Get()
				}
				assert.Equal(t, time.Second, q.OldestReady(), "new waits")
				q.Get()
				assert.Zero(t, q.OldestReady(), "keys in process are not ready")
				sleep(time.Second)
				q.Add("new")
				q.Done("new")
				sleep(time.Second)
				assert.Equal(t, time.Second, q.OldestReady(), "since it was done")
				q.ShutDown()
			})
		})
	}
	q := must(workqueue.New(workqueue.Config[string]{}))
	q.Add("a")
	assert.Zero(t, q.OldestReady(), "without Timestamps")
}
