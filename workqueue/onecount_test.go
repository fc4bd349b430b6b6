package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// There is one count of failures: that of the queue.

// foreign is a limiter with a count of its own, as those of client-go are, which remembers a key until Forget.
type foreign[K comparable] struct {
	counts map[K]int
	asked  int
}

func newForeign[K comparable]() *foreign[K] { return &foreign[K]{counts: map[K]int{}} }

func (f *foreign[K]) When(key K) time.Duration {
	f.asked++
	f.counts[key]++
	return min(5*time.Millisecond<<(f.counts[key]-1), 1000*time.Second)
}

func (f *foreign[K]) Forget(key K)          { delete(f.counts, key) }
func (f *foreign[K]) NumRequeues(key K) int { return f.counts[key] }

// scheduledIn returns in which time the only key is to be added.
func scheduledIn(q *workqueue.Queue[string]) time.Duration { return time.Until(q.Snapshot()[0].Next) }

// limiters are all that give the backoff of the default.
var limiters = map[string]func() workqueue.RateLimiter[string]{
	"nil":      func() workqueue.RateLimiter[string] { return nil },
	"explicit": workqueue.DefaultControllerRateLimiter[string],
	"composed": func() workqueue.RateLimiter[string] {
		return workqueue.NewWithMaxWaitRateLimiter(workqueue.NewMaxOfRateLimiter(
			workqueue.NewItemExponentialFailureRateLimiter[string](time.Millisecond, time.Hour), workqueue.DefaultControllerRateLimiter[string](),
		), 1000*time.Second)
	},
	"foreign": func() workqueue.RateLimiter[string] { return newForeign[string]() },
}

func TestRevivedKeyHasFullBudgetAndInitialBackoff(t *testing.T) {
	revivals := map[string]func(q *workqueue.Queue[string]){
		"DropParked": func(q *workqueue.Queue[string]) { require.True(t, q.DropParked("k")); q.Add("k") },
		"Add":        func(q *workqueue.Queue[string]) { q.Add("k") },
		"AddAfter":   func(q *workqueue.Queue[string]) { q.AddAfter("k", time.Second); sleep(time.Second) },
		"a failure in between": func(q *workqueue.Queue[string]) {
			q.AddRateLimited("k")
			q.AddRateLimited("k")
			q.Add("k")
		},
	}
	for name, limiter := range limiters {
		for revival, revive := range revivals {
			t.Run(name+"/"+revival, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 10, RateLimiter: limiter()}))
					q.Add("k")
					for range 2 {
						for attempt := 1; attempt < 10; attempt++ {
							require.Equal(t, attempt, fail(t, q).Attempt)
							require.Equal(t, 5*time.Millisecond<<(attempt-1), scheduledIn(q))
						}
						fail(t, q)
						require.Equal(t, []string{"k"}, q.Parked())
						revive(q)
					}
				})
			})
		}
	}
}

func TestKeyReadyInsteadOfParkedRestartsBackoff(t *testing.T) {
	for name, limiter := range limiters {
		for when, spend := range map[string]func(q *workqueue.Queue[string]){
			"dirty":           func(q *workqueue.Queue[string]) { q.Get(); q.Add("k"); q.AddRateLimited("k"); q.Done("k") },
			"dirty afterward": func(q *workqueue.Queue[string]) { q.Get(); q.AddRateLimited("k"); q.Add("k"); q.Done("k") },
			"ready":           func(q *workqueue.Queue[string]) { q.Add("k"); q.AddRateLimited("k") },
		} {
			t.Run(name+"/"+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 3, RateLimiter: limiter()}))
					q.Add("k")
					for range 3 {
						for attempt := 1; attempt < 3; attempt++ {
							require.Equal(t, attempt, fail(t, q).Attempt)
							require.Equal(t, 5*time.Millisecond<<(attempt-1), scheduledIn(q))
						}
						spend(q)
						require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
						require.Zero(t, q.NumRequeues("k"))
					}
				})
			})
		}
	}
}

func TestFailureWithOwnDelayGrowsNextBackoff(t *testing.T) {
	for name, limiter := range limiters {
		if name == "foreign" {
			continue // it counts for itself
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter()}))
				for range 3 {
					q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Second})
					require.Equal(t, time.Second, dueAfter(t, q))
				}
				q.AddRateLimited("k")
				require.Equal(t, 40*time.Millisecond, dueAfter(t, q))
				require.Equal(t, 4, q.NumRequeues("k"))
			})
		})
	}
}

func TestQueueAndLimiterForgetFailureTogether(t *testing.T) {
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter()}))
				for range 3 {
					for attempt := range 3 {
						q.AddRateLimited("k")
						require.Equal(t, 5*time.Millisecond<<attempt, dueAfter(t, q))
					}
					sleep(time.Hour)
					require.Zero(t, q.NumRequeues("k"))
				}
			})
		})
	}
}

func TestLimiterIsAskedOncePerDelayedFailure(t *testing.T) {
	f := newForeign[string]()
	q := must(workqueue.New(workqueue.Config[string]{RateLimiter: f, MaxAttempts: 3}))
	q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Second})
	require.Zero(t, f.asked)
	q.AddRateLimited("k")
	require.Equal(t, 1, f.asked)
	q.AddRateLimited("k")
	require.Equal(t, []string{"k"}, q.Parked())
	asked := f.asked
	q.AddRateLimited("k")
	require.Equal(t, asked, f.asked, "a failure of a parked key needs no delay")
	q.ShutDown()
	q.AddRateLimited("other")
	require.Equal(t, asked, f.asked, "nor after a shutdown")
}
