package workqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// In each state, a final failure has the effect of the last failure of a budget. The twin has a budget of one
// attempt.
func TestFinalFailureSpendsBudgetInEachState(t *testing.T) {
	type queue = *workqueue.Queue[string]
	soon := func(q queue) { q.AddAfter("k", -1) }
	for name, enter := range map[string]func(q queue){
		"absent":                   func(queue) {},
		"absent, with a wake-up":   func(q queue) { q.AddAfter("k", time.Minute) },
		"ready":                    soon,
		"ready, with a wake-up":    func(q queue) { soon(q); q.AddAfter("k", time.Minute) },
		"process":                  func(q queue) { soon(q); tryGet(q) },
		"process, with a wake-up":  func(q queue) { soon(q); tryGet(q); q.AddAfter("k", time.Minute) },
		"process, and quiet":       func(q queue) { soon(q); tryGet(q); q.Add("k") },
		"dirty":                    func(q queue) { soon(q); tryGet(q); soon(q) },
		"after a shutdown, absent": func(q queue) { q.ShutDown() },
		"after a shutdown, dirty":  func(q queue) { soon(q); tryGet(q); soon(q); q.ShutDown() },
	} {
		for _, limiter := range []workqueue.RateLimiter[string]{nil, workqueue.DefaultControllerRateLimiter[string](), limiterOf(time.Second)} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var parked []int
					cfg := workqueue.Config[string]{
						Debounce: time.Second, RateLimiter: limiter, Timestamps: true, Logger: discard,
						Hooks: workqueue.Hooks[string]{Parked: func(_ string, attempts int) { parked = append(parked, attempts) }},
					}
					q := must(workqueue.New(cfg))
					cfg.MaxAttempts = 1
					twin := must(workqueue.New(cfg))
					enter(q)
					enter(twin)
					got := q.AddWith("k", workqueue.AddOptions{Final: true, Reason: "no"})
					want := twin.AddWith("k", workqueue.AddOptions{RateLimited: true, Reason: "no"})
					assert.Equal(t, want, got)
					assert.False(t, got)
					for range 3 {
						require.NoError(t, q.CheckInvariants())
						assert.Equal(t, twin.Snapshot(), q.Snapshot())
						assert.Equal(t, twin.Stats(), q.Stats())
						assert.Equal(t, twin.Parked(), q.Parked())
						q.Done("k")
						twin.Done("k")
						synctest.Wait()
						time.Sleep(10 * time.Second)
					}
					for i := 1; i < len(parked); i += 2 {
						assert.Equal(t, parked[i-1], parked[i])
					}
					assert.Zero(t, len(parked)%2, "both get it, or neither")
					q.ShutDown()
					twin.ShutDown()
				})
			})
		}
	}
}

func TestFailureAfterFinalFailureLeavesNoBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		item, _ := q.TryTake()
		assert.False(t, q.AddWith("k", workqueue.AddOptions{Final: true}))
		assert.False(t, q.AddWith("k", workqueue.AddOptions{RateLimited: true}))
		item.Done()
		require.NoError(t, q.CheckInvariants())
		assert.Equal(t, workqueue.Stats{Parked: 1}, q.Stats())
		sleep(time.Hour)
		assert.Equal(t, []string{"k"}, q.Parked())
		q.ShutDown()
	})
}

// asked counts how often it is asked for a delay.
type asked struct{ whens, forgets int }

func (a *asked) When(string) time.Duration { a.whens++; return time.Second }
func (a *asked) Forget(string)             { a.forgets++ }
func (a *asked) NumRequeues(string) int    { return 0 }

func TestFinalFailureCountsWithoutBudgetOrBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &asked{}
		q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter, Logger: discard}))
		q.AddRateLimited("k")
		q.AddRateLimited("k")
		assert.Equal(t, asked{2, 0}, *limiter)
		assert.False(t, q.AddWith("k", workqueue.AddOptions{Final: true, After: time.Hour}))
		assert.Equal(t, asked{2, 1}, *limiter)
		assert.Equal(t, []string{"k"}, q.Parked(), "the backoff is over")
		assert.Equal(t, 3, q.NumRequeues("k"))
		q.Add("k")
		assert.Zero(t, q.NumRequeues("k"), "with a full budget")
		assert.False(t, q.AddWith("k", workqueue.AddOptions{Final: true}), "the requested attempt comes")
		assert.Equal(t, []string{"k"}, q.Ready())
		q.ShutDown()
	})
}
