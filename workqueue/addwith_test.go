package workqueue_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// dueAfter waits for the only key of q, and returns when it came.
func dueAfter(t *testing.T, q *workqueue.Queue[string]) time.Duration {
	t.Helper()
	begin := time.Now()
	k, err := next(q, t.Context())
	require.NoError(t, err)
	q.Done(k)
	return time.Since(begin)
}

func TestAddWithHonorsDelayAndTime(t *testing.T) {
	for _, c := range []struct {
		name string
		opts func(now time.Time) workqueue.AddOptions
		want time.Duration
	}{
		{"nothing", func(time.Time) workqueue.AddOptions { return workqueue.AddOptions{} }, 0},
		{"After", func(time.Time) workqueue.AddOptions { return workqueue.AddOptions{After: time.Minute} }, time.Minute},
		{"a negative After", func(time.Time) workqueue.AddOptions { return workqueue.AddOptions{After: -1} }, 0},
		{"At, in the future", func(now time.Time) workqueue.AddOptions { return workqueue.AddOptions{At: now.Add(time.Hour)} }, time.Hour},
		{"At, without a monotonic clock", func(now time.Time) workqueue.AddOptions {
			return workqueue.AddOptions{At: now.Add(time.Hour).Round(0)}
		}, time.Hour},
		{"At, in the past", func(now time.Time) workqueue.AddOptions { return workqueue.AddOptions{At: now.Add(-time.Hour)} }, 0},
		{"RateLimited", func(time.Time) workqueue.AddOptions { return workqueue.AddOptions{RateLimited: true} }, 5 * time.Millisecond},
		{"RateLimited, After", func(time.Time) workqueue.AddOptions {
			return workqueue.AddOptions{RateLimited: true, After: time.Minute}
		}, time.Minute},
		{"RateLimited, a negative After", func(time.Time) workqueue.AddOptions {
			return workqueue.AddOptions{RateLimited: true, After: -1}
		}, 0},
		{"RateLimited, At", func(now time.Time) workqueue.AddOptions {
			return workqueue.AddOptions{RateLimited: true, At: now.Add(time.Hour)}
		}, time.Hour},
		{"RateLimited, At, in the past", func(now time.Time) workqueue.AddOptions {
			return workqueue.AddOptions{RateLimited: true, At: now.Add(-1)}
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				require.True(t, q.AddWith("k", c.opts(time.Now())))
				require.Equal(t, c.want == 0, q.Len() == 1)
				require.Equal(t, c.want, dueAfter(t, q))
			})
		})
	}
}

// The test covers each policy with each pair of ways to schedule a wake-up or a backoff, in both orders.
func TestPolicyChoosesBetweenTwoWakeUpsOrTwoBackoffs(t *testing.T) {
	const short, long = time.Second, time.Minute
	limiter := &settableLimiter{}
	options := map[string]func(d time.Duration) workqueue.AddOptions{
		"After": func(d time.Duration) workqueue.AddOptions { return workqueue.AddOptions{After: d} },
		"At":    func(d time.Duration) workqueue.AddOptions { return workqueue.AddOptions{At: time.Now().Add(d)} },
		"RateLimited": func(d time.Duration) workqueue.AddOptions {
			limiter.d = d
			return workqueue.AddOptions{RateLimited: true}
		},
		"RateLimited, After": func(d time.Duration) workqueue.AddOptions { return workqueue.AddOptions{RateLimited: true, After: d} },
	}
	isBackoff := func(kind string) bool { return strings.HasPrefix(kind, "RateLimited") }
	for first, firstOptions := range options {
		for second, secondOptions := range options {
			for policy, wants := range map[workqueue.Policy][2]time.Duration{
				workqueue.Earliest: {short, short}, workqueue.Latest: {long, long}, workqueue.Replace: {long, short},
			} {
				for i, want := range wants {
					d, e := short, long
					if i == 1 {
						d, e = long, short
					}
					t.Run(fmt.Sprintf("%s %v, %s %v, %v", first, d, second, e, policy), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							q := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter}))
							q.AddWith("k", firstOptions(d))
							opts := secondOptions(e)
							opts.Policy = policy
							q.AddWith("k", opts)
							require.NoError(t, q.CheckInvariants())
							if isBackoff(first) == isBackoff(second) {
								require.Equal(t, want, dueAfter(t, q))
								require.Zero(t, q.Stats().Delayed)
								return
							}
							// Both stand. An attempt ends the backoff, and leaves the wake-up.
							wakeUp := d
							if isBackoff(first) {
								wakeUp = e
							}
							next := q.Snapshot()[0].Next
							require.True(t, time.Now().Add(short).Equal(next), next)
							q.Add("k")
							tryGet(q)
							q.Done("k")
							require.Equal(t, wakeUp, dueAfter(t, q))
							require.NoError(t, q.CheckInvariants())
						})
					})
				}
			}
		}
	}
}

func TestPolicyIgnoresImmediateAdds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("k", time.Minute)
		q.AddWith("k", workqueue.AddOptions{Policy: workqueue.Replace})
		require.Equal(t, workqueue.Stats{Ready: 1, Delayed: 1}, q.Stats())
		q.AddWith("k", workqueue.AddOptions{At: time.Now().Add(-1), Policy: workqueue.Replace})
		require.Equal(t, workqueue.Stats{Ready: 1, Delayed: 1}, q.Stats())
		q.ShutDown()
	})
}

func TestTimerFollowsMovedWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("a", time.Minute)
		q.AddAfter("b", time.Hour)
		q.AddWith("a", workqueue.AddOptions{After: 3 * time.Hour, Policy: workqueue.Replace})
		require.NoError(t, q.CheckInvariants())
		require.Equal(t, time.Hour, dueAfter(t, q))
		q.AddWith("a", workqueue.AddOptions{After: time.Second, Policy: workqueue.Replace})
		require.Equal(t, time.Second, dueAfter(t, q))
	})
}

func TestConflictingAddOptionsPanic(t *testing.T) {
	q := newQueue()
	const exclusive = "workqueue: AddWith: only one of After and At can be set"
	for _, opts := range []workqueue.AddOptions{
		{After: 1, At: time.Now()}, {After: -1, At: time.Now()}, {After: 1, At: time.Now(), RateLimited: true},
	} {
		require.PanicsWithValue(t, exclusive, func() { q.AddWith("k", opts) })
	}
	for _, policy := range []workqueue.Policy{-1, 3} {
		require.PanicsWithValue(t, "workqueue: AddWith: there is no such Policy", func() { q.AddWith("k", workqueue.AddOptions{Policy: policy}) })
	}
	require.Equal(t, workqueue.Stats{}, q.Stats())
}

func TestDelayedAddKeepsHigherPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith("k", prio(-3))
		q.AddWith("k", workqueue.AddOptions{After: time.Hour})
		q.AddWith("k", workqueue.AddOptions{RateLimited: true})
		require.Equal(t, -3, q.Snapshot()[0].Priority)
		q.AddWith("k", workqueue.AddOptions{After: time.Hour, Priority: -2})
		require.Equal(t, -2, q.Snapshot()[0].Priority)
		q.AddWith("k", workqueue.AddOptions{RateLimited: true, Priority: 4})
		require.Equal(t, 4, q.Snapshot()[0].Priority)
		q.AddWith("new", workqueue.AddOptions{After: time.Hour, Priority: -7})
		q.AddWith("failed", workqueue.AddOptions{RateLimited: true, Priority: -8})
		require.Equal(t, -8, q.Snapshot()[1].Priority)
		require.Equal(t, -7, q.Snapshot()[2].Priority)
		q.ShutDown()
	})
}

// A priority is not remembered with the failures, because the key has no pending work.
func TestPriorityIsNotRememberedWithFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, p := range []int{5, -5} {
			q.AddWith("k", workqueue.AddOptions{RateLimited: true, Priority: p})
			time.Sleep(time.Second)
			q.Get()
			q.Done("k")
			require.Equal(t, workqueue.Stats{Remembered: 1}, q.Stats())
			require.Zero(t, q.Snapshot()[0].Priority)
			q.AddWith("k", prio(-1))
			require.Equal(t, -1, q.Snapshot()[0].Priority)
			q.Get()
			q.Done("k")
		}
	})
}

func TestCancelUndoesAddInEachState(t *testing.T) {
	type queue = *workqueue.Queue[string]
	soon := func(q queue) { q.AddAfter("k", 1); time.Sleep(time.Nanosecond); synctest.Wait() } // not debounced
	for _, c := range []struct {
		state    string
		enter    func(queue)
		canceled bool
		after    workqueue.Stats
	}{
		{"absent", func(queue) {}, false, workqueue.Stats{}},
		{"ready", func(q queue) { soon(q) }, true, workqueue.Stats{}},
		{"scheduled", func(q queue) { q.AddAfter("k", 1) }, true, workqueue.Stats{}},
		{"backoff", func(q queue) { q.AddRateLimited("k") }, true, workqueue.Stats{Remembered: 1}},
		{"quiet", func(q queue) { q.Add("k") }, true, workqueue.Stats{}},
		{"ready and scheduled", func(q queue) { soon(q); q.AddAfter("k", 1) }, true, workqueue.Stats{}},
		{"in process", func(q queue) { soon(q); tryGet(q) }, false, workqueue.Stats{InProcess: 1}},
		{"in process and quiet", func(q queue) { soon(q); tryGet(q); q.Add("k") }, true, workqueue.Stats{InProcess: 1}},
		{"dirty", func(q queue) { soon(q); tryGet(q); soon(q) }, true, workqueue.Stats{InProcess: 1}},
		{"remembered", func(q queue) { q.AddRateLimited("k"); q.Cancel("k") }, false, workqueue.Stats{Remembered: 1}},
		{"parked", func(q queue) { q.AddRateLimited("k"); q.AddRateLimited("k") }, false, workqueue.Stats{Parked: 1}},
		{"parked and scheduled", func(q queue) {
			q.AddRateLimited("k")
			q.AddRateLimited("k")
			q.AddAfter("k", 1)
		}, true, workqueue.Stats{Parked: 1}},
		{"parked and quiet", func(q queue) { q.AddRateLimited("k"); q.AddRateLimited("k"); q.Add("k") }, true, workqueue.Stats{Parked: 1}},
		{"ready after a shutdown", func(q queue) { q.Add("k"); q.ShutDown() }, true, workqueue.Stats{}},
	} {
		t.Run(c.state, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2, Debounce: 10, Logger: discard}))
				c.enter(q)
				require.Equal(t, c.canceled, q.Cancel("k"))
				require.Equal(t, c.after, q.Stats())
				require.NoError(t, q.CheckInvariants())
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, c.after, q.Stats(), "nothing comes back")
				require.False(t, q.Cancel("k"), "nothing is left to cancel")
				q.Done("k")
				q.ShutDown()
			})
		})
	}
}
