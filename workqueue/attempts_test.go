package workqueue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// fail takes the only key, when it is ready, and fails at it.
func fail(t *testing.T, q *workqueue.Queue[string]) workqueue.Item[string] {
	t.Helper()
	item, err := q.Take(t.Context())
	require.NoError(t, err)
	q.AddRateLimited(item.Key)
	item.Done()
	require.NoError(t, q.CheckInvariants())
	return item
}

func TestItemHasAttemptAndFirstFailure(t *testing.T) {
	for name, cfg := range map[string]workqueue.Config[string]{
		"the queue counts":                {},
		"the limiter counts too":          {RateLimiter: workqueue.DefaultControllerRateLimiter[string]()},
		"the limiter counts nothing":      {RateLimiter: limiterOf(time.Second)},
		"the limiter counts, with limits": {RateLimiter: workqueue.DefaultControllerRateLimiter[string](), MaxElapsed: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(cfg))
				q.Add("k")
				sleep(time.Second)
				begin := time.Now()
				for attempt := 1; attempt < 5; attempt++ {
					item := fail(t, q)
					require.Equal(t, attempt, item.Attempt)
					require.Equal(t, attempt, q.NumRequeues("k"))
					if attempt == 1 {
						require.Zero(t, item.FirstFailure)
					} else {
						require.True(t, item.FirstFailure.Equal(begin), item.FirstFailure)
					}
				}
				q.Forget("k")
				require.Zero(t, q.NumRequeues("k"))
				q.Add("k")
				item, _ := q.Take(t.Context())
				require.Equal(t, 1, item.Attempt)
				require.Zero(t, item.FirstFailure)
			})
		})
	}
}

func TestDefaultBackoffDoublesUpToThousandSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		d := 5 * time.Millisecond
		for range 70 {
			q.AddRateLimited("k")
			require.Equal(t, d, dueAfter(t, q))
			d = min(2*d, 1000*time.Second)
		}
		q.Forget("k")
		q.AddRateLimited("k")
		require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
	})
}

func TestKeyIsParkedAfterMaxAttempts(t *testing.T) {
	for name, limiter := range map[string]workqueue.RateLimiter[string]{"own": nil, "custom": limiterOf(time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var parked []int
				cfg := workqueue.Config[string]{MaxAttempts: 3, RateLimiter: limiter}
				cfg.Hooks.Parked = func(_ string, attempts int) { parked = append(parked, attempts) }
				q := must(workqueue.New(cfg))
				q.Add("k")
				for range 2 {
					fail(t, q)
					require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
				}
				item, _ := q.Take(t.Context())
				q.AddRateLimited("k")
				require.Equal(t, workqueue.Stats{InProcess: 1}, q.Stats())
				require.Empty(t, parked)
				item.Done()
				require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats())
				require.Equal(t, []int{3}, parked)
				sleep(24 * time.Hour)
				require.Equal(t, []string{"k"}, q.Parked(), "for as long as it takes")
				q.Forget("k")
				require.Equal(t, []string{"k"}, q.Parked(), "it has not succeeded")
				require.Equal(t, 3, q.Snapshot()[0].Failures)
			})
		})
	}
}

func TestKeyIsParkedAfterMaxElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxElapsed: time.Minute, RateLimiter: limiterOf(1)}))
		q.Add("k")
		sleep(time.Hour) // it counts from the first failure
		fail(t, q)
		q.Get()
		sleep(time.Minute - 2)
		q.AddRateLimited("k")
		q.Done("k")
		require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats(), "a nanosecond before the end")
		fail(t, q)
		require.Equal(t, []string{"k"}, q.Parked())
		q.Add("k")
		fail(t, q)
		require.Empty(t, q.Parked(), "the time was reset")
	})
}

func TestParkedKeysCanBeListedRetriedAndDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var added []string
		cfg := workqueue.Config[string]{MaxAttempts: 1}
		cfg.Hooks.Added = func(k string) { added = append(added, k) }
		q := must(workqueue.New(cfg))
		for _, k := range []string{"c", "a", "b", "d"} {
			q.AddRateLimited(k)
		}
		require.Equal(t, []string{"c", "a", "b", "d"}, q.Parked())
		require.False(t, q.DropParked("unknown"))
		q.Add("a")
		require.False(t, q.DropParked("a"))
		require.Equal(t, []string{"a"}, added)
		require.True(t, q.DropParked("c"))
		require.Equal(t, []string{"b", "d"}, q.Parked())
		require.Equal(t, workqueue.Stats{Ready: 1, Parked: 2}, q.Stats(), "a dropped key has no remembered failures")
		item := fail(t, q)
		require.Equal(t, 1, item.Attempt, "the budget is full")
		require.Equal(t, []string{"b", "d", "a"}, q.Parked())

		q.AddAfter("b", time.Minute)
		require.True(t, q.DropParked("b"), "except for its wake-up")
		require.Equal(t, workqueue.Stats{Delayed: 1, Parked: 2}, q.Stats())
		require.NoError(t, q.CheckInvariants())
		q.ShutDown()
		q.Add("d")
		require.Equal(t, []string{"d", "a"}, q.Parked())
		require.True(t, q.DropParked("d"))
		require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats())
	})
}

func TestAddOfParkedKeyWakesWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1}))
		q.AddRateLimited("k")
		got := make(chan string, 1)
		go func() { k, _ := q.Get(); got <- k }()
		synctest.Wait()
		require.Empty(t, got)
		q.Add("k")
		require.Equal(t, "k", <-got)
	})
}

func TestParkedKeyIsRevivedByAddAndByDueWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 1, RateLimiter: limiterOf(0)}))
		q.AddRateLimited("k")
		q.AddRateLimited("k") // does not revive, whatever the limiter says, and is no failure of an attempt
		require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats())
		require.Equal(t, 1, q.Snapshot()[0].Failures)
		q.AddAfter("k", time.Minute)
		require.Equal(t, workqueue.Stats{Parked: 1, Delayed: 1}, q.Stats())
		sleep(time.Minute - 1)
		require.Equal(t, []string{"k"}, q.Parked())
		sleep(1)
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.Zero(t, q.Snapshot()[0].Failures)
		fail(t, q)
		q.Add("k")
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants())
	})
}

// A key that is added after the failure that spent its budget is not parked.
func TestAddBeforeDoneOfSpentKeyResetsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parked := 0
		cfg := workqueue.Config[string]{MaxAttempts: 1}
		cfg.Hooks.Parked = func(string, int) { parked++ }
		q := must(workqueue.New(cfg))
		q.Add("k")
		for _, after := range []bool{true, false} {
			item, _ := q.TryTake()
			if !after {
				q.Add("k")
			}
			q.AddRateLimited("k")
			if after {
				q.Add("k")
			}
			require.NoError(t, q.CheckInvariants())
			item.Done()
			require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
			require.Zero(t, q.Snapshot()[0].Failures)
		}
		q.AddRateLimited("k") // a failure of a key that is ready: the attempt comes
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.Zero(t, q.Snapshot()[0].Failures)

		tryGet(q)
		q.AddRateLimited("k")
		q.Forget("k") // succeeded after all
		q.Done("k")
		require.Equal(t, workqueue.Stats{}, q.Stats())
		require.Zero(t, parked)
	})
}

func TestSpentKeyDropsBackoffButKeepsWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{MaxAttempts: 2}))
		q.AddRateLimited("k")
		q.AddRateLimited("k") // spends it, while the first backoff is scheduled
		require.Equal(t, workqueue.Stats{Parked: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants())
		q.DropParked("k")

		for _, d := range []time.Duration{time.Millisecond, time.Second} { // before the backoff, and after it
			q.AddAfter("k", d)
			q.AddRateLimited("k")
			q.AddRateLimited("k")
			require.Equal(t, workqueue.Stats{Parked: 1, Delayed: 1}, q.Stats())
			require.Equal(t, d, dueAfter(t, q))
		}
	})
}

func TestFailuresAreRememberedForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.Add("k")
		fail(t, q)
		fail(t, q)
		require.Equal(t, 2, q.NumRequeues("k"))
		q.Get()
		q.Done("k") // neither forgotten nor failed
		for range 2 {
			sleep(time.Hour - 1)
			require.Equal(t, workqueue.Stats{Remembered: 1}, q.Stats())
			require.Equal(t, 2, q.NumRequeues("k"))
			q.Add("k") // the hour starts over
			q.Get()
			q.Done("k")
		}
		sleep(time.Hour - 1)
		require.Equal(t, 2, q.NumRequeues("k"))
		sleep(1)
		require.Equal(t, workqueue.Stats{}, q.Stats())
		require.Zero(t, q.NumRequeues("k"))
		require.NoError(t, q.CheckInvariants())

		q.AddRateLimited("k")
		require.Equal(t, 5*time.Millisecond, dueAfter(t, q))
		q.Forget("k")
		require.Equal(t, workqueue.Stats{}, q.Stats(), "a forgotten key has no remembered failures")
	})
}

func TestMemoryOfFailuresNeverForgottenIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		q := must(workqueue.New(workqueue.Config[int]{RateLimiter: nil, Group: func(k int) string { return fmt.Sprint(k % 7) }}))
		for k := range n {
			q.AddRateLimited(k)
		}
		for range n {
			k, _ := q.Get()
			q.Done(k)
		}
		require.Equal(t, workqueue.Stats{Remembered: n}, q.Stats())
		sleep(time.Hour)
		require.Equal(t, workqueue.Stats{}, q.Stats(), "without any call")
		require.LessOrEqual(t, q.Kept(), 4096)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestFailuresDoNotExpireAfterShutDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddRateLimited("a")
		q.Add("b")
		tryGet(q)
		q.AddRateLimited("b")
		q.ShutDown()
		require.Equal(t, workqueue.Stats{InProcess: 1, Remembered: 1}, q.Stats())
		q.Done("b")
		require.NoError(t, q.CheckInvariants(), "no timer runs")
		sleep(2 * time.Hour)
		require.Equal(t, workqueue.Stats{Remembered: 2}, q.Stats())
		q.Forget("a")
		require.Equal(t, workqueue.Stats{Remembered: 1}, q.Stats())
	})
}

// customLimiter is a limiter that is not of the package, though it uses one: it counts for itself.
type customLimiter struct {
	*workqueue.ItemFastSlowRateLimiter[string]
}

func TestCustomLimiterSetsDelayAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := customLimiter{workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Minute, 1)}
		q := must(workqueue.New(workqueue.Config[string]{RateLimiter: l}))
		q.AddRateLimited("k")
		require.Equal(t, time.Second, dueAfter(t, q))
		q.AddRateLimited("k")
		require.Equal(t, time.Minute, dueAfter(t, q))
		require.Equal(t, 2, l.NumRequeues("k"))
		q.Forget("k")
		require.Zero(t, l.NumRequeues("k"))
		require.Equal(t, workqueue.Stats{}, q.Stats())

		at := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiterOf(-1)}))
		at.AddRateLimited("k")
		require.Equal(t, workqueue.Stats{Ready: 1}, at.Stats(), "a limiter that wants no delay")
	})
}

// A failure with its own delay counts like any other, except that the limiter is not asked.
func TestFailureWithOwnDelayCountsAsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := customLimiter{workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Minute, 1)}
		q := must(workqueue.New(workqueue.Config[string]{RateLimiter: l, MaxAttempts: 4}))
		own := func(d time.Duration) workqueue.AddOptions {
			return workqueue.AddOptions{RateLimited: true, After: d, Policy: workqueue.Replace, Reason: "busy"}
		}
		require.True(t, q.AddWith("k", own(time.Hour)))
		require.Equal(t, 1, q.NumRequeues("k"))
		require.Zero(t, l.NumRequeues("k"))
		q.Add("k")
		item, _ := q.TryTake()
		require.Equal(t, 2, item.Attempt)
		require.Equal(t, "busy", item.Reasons[0].Text)
		require.Zero(t, q.Stats().Delayed, "the awaited attempt has started")
		require.True(t, q.AddWith("k", workqueue.AddOptions{RateLimited: true, At: time.Now().Add(time.Hour)}))
		item.Done()
		require.Equal(t, time.Hour, dueAfter(t, q))
		require.True(t, q.AddWith("k", workqueue.AddOptions{RateLimited: true}))
		require.Equal(t, time.Second, dueAfter(t, q), "a limiter with its own count knows no earlier failure")

		q.Add("k")
		item, _ = q.TryTake()
		require.False(t, q.AddWith("k", own(time.Hour)), "the budget is spent")
		require.Empty(t, q.Parked())
		item.Done()
		require.Equal(t, []string{"k"}, q.Parked())
		require.False(t, q.AddWith("k", own(-1)), "a failure revives nothing")
		require.False(t, q.AddWith("k", workqueue.AddOptions{RateLimited: true}))
		require.True(t, q.AddWith("k", workqueue.AddOptions{After: time.Second}))
		require.Equal(t, time.Second, dueAfter(t, q))
		q.ShutDown()
		for _, opts := range []workqueue.AddOptions{{}, {After: 1}, own(1), {RateLimited: true}} {
			require.False(t, q.AddWith("k", opts), "nothing comes after a shutdown")
		}
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}

// The default backoff counts all earlier failures.
func TestDefaultBackoffCountsFailuresWithOwnDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for range 3 {
			q.AddWith("k", workqueue.AddOptions{RateLimited: true, After: time.Second})
			require.Equal(t, time.Second, dueAfter(t, q))
		}
		q.AddRateLimited("k")
		require.Equal(t, 40*time.Millisecond, dueAfter(t, q))
		q.Forget("k")
		require.Equal(t, workqueue.Stats{}, q.Stats())
	})
}
