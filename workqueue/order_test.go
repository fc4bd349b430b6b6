package workqueue_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func prio(p int) workqueue.AddOptions { return workqueue.AddOptions{Priority: p} }

// takeAll hands out all that may be, without Done.
func takeAll(q *workqueue.Queue[string]) (keys []string) {
	for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
		keys = append(keys, k)
	}
	return keys
}

// finishAll hands out all that is ready, one after the other.
func finishAll(q *workqueue.Queue[string]) (keys []string) {
	for k, ok := tryGet(q); ok; k, ok = tryGet(q) {
		keys = append(keys, k)
		q.Forget(k)
		q.Done(k)
	}
	return keys
}

func TestWithoutAgingHigherPriorityAlwaysComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
		for i, p := range []int{0, math.MinInt, 5, -1, math.MaxInt, 5, 0} {
			q.AddWith(fmt.Sprint(p, " ", i), prio(p))
			time.Sleep(time.Hour)
		}
		require.Equal(t, []string{
			fmt.Sprint(math.MaxInt, " 4"), "5 2", "5 5", "0 0", "0 6", "-1 3", fmt.Sprint(math.MinInt, " 1"),
		}, takeAll(q), "and within a priority first in, first out")
	})
}

// Guarantee 11, to the nanosecond.
func TestPriorityOvertakesOnlyWithinItsAgingAdvantage(t *testing.T) {
	const aging = 3 * time.Second
	for _, p := range []int{-2, 0, 1, 1 << 30} {
		for _, timestamps := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{Aging: aging, Timestamps: timestamps}))
				q.AddWith("grade", prio(7))
				finishAll(q)

				q.AddWith("low", prio(p))
				time.Sleep(2 * aging)
				q.AddWith("high", prio(p+2))
				require.Equal(t, []string{"high", "low"}, finishAll(q), "just in time")

				q.AddWith("low", prio(p))
				time.Sleep(2*aging + 1)
				q.AddWith("high", prio(p+2))
				require.Equal(t, []string{"low", "high"}, finishAll(q), "a nanosecond late")
			})
		}
	}
}

// Times and priorities must not be compared as rounded numbers, or by products that overflow.
func TestAgingIsExactForHugePrioritiesAndTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Aging: 1}))
		q.AddWith("lowest", prio(math.MinInt))
		q.AddWith("high", prio(math.MaxInt))
		q.AddWith("higher", prio(math.MaxInt-1))
		time.Sleep(100 * 365 * 24 * time.Hour)
		q.AddWith("highest", prio(math.MaxInt))
		require.Equal(t, []string{"high", "higher", "highest", "lowest"}, takeAll(q))
		q.AddWith("low", prio(1))
		time.Sleep(time.Nanosecond)
		q.AddWith("just in time", prio(2))
		require.Equal(t, []string{"just in time", "low"}, takeAll(q))
		q.AddWith("low 2", prio(1))
		time.Sleep(2 * time.Nanosecond)
		q.AddWith("late", prio(2))
		require.Equal(t, []string{"low 2", "late"}, takeAll(q))

		worth := must(workqueue.New(workqueue.Config[string]{Aging: 2})) // times 1<<63 it does not fit in 64 bits
		worth.AddWith("low", prio(math.MinInt))
		time.Sleep(time.Second)
		worth.Add("high")
		require.Equal(t, []string{"high", "low"}, takeAll(worth))
	})
}

func TestDefaultAgingIsTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith("low", prio(-1))
		time.Sleep(10 * time.Second)
		q.Add("in time")
		time.Sleep(time.Nanosecond)
		q.Add("late")
		require.Equal(t, []string{"in time", "low", "late"}, takeAll(q))
	})
}

func TestPriorityIsKeptOnRequeue(t *testing.T) {
	requeue := map[string]func(*workqueue.Queue[string]){
		"added while in process": func(q *workqueue.Queue[string]) { q.Add("k") },
		"by AddRateLimited":      func(q *workqueue.Queue[string]) { q.AddRateLimited("k") },
		"by AddAfter":            func(q *workqueue.Queue[string]) { q.AddAfter("k", time.Second) },
		"by AddAfter, at once":   func(q *workqueue.Queue[string]) { q.AddAfter("k", 0) },
	}
	for name, again := range requeue {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
				q.AddWith("k", prio(3))
				tryGet(q)
				again(q)
				q.Done("k")
				q.AddWith("lower", prio(2))
				time.Sleep(time.Second)
				synctest.Wait()
				require.Equal(t, []string{"k", "lower"}, finishAll(q))

				q.AddWith("lower", prio(2))
				q.Add("k")
				require.Equal(t, []string{"lower", "k"}, finishAll(q), "dropped when nothing was left to do")
			})
		})
	}
}

func TestNegativePriorityIsKeptOnRequeueAndRaisedByAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
		q.AddWith("k", prio(-3))
		tryGet(q)
		q.AddAfter("k", time.Second)
		q.Done("k")
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, -3, q.Snapshot()[0].Priority)
		q.Add("k")
		require.Equal(t, 0, q.Snapshot()[0].Priority)
	})
}

func TestLaterAddNeverLowersPriority(t *testing.T) {
	states := map[string]func(*workqueue.Queue[string]){
		"ready":      func(q *workqueue.Queue[string]) { q.AddWith("k", prio(1)) },
		"delayed":    func(q *workqueue.Queue[string]) { q.AddWith("k", workqueue.AddOptions{Priority: 1, After: time.Hour}) },
		"in process": func(q *workqueue.Queue[string]) { q.AddWith("k", prio(1)); tryGet(q) },
		"dirty":      func(q *workqueue.Queue[string]) { q.AddWith("k", prio(1)); tryGet(q); q.Add("k") },
		"parked": func(q *workqueue.Queue[string]) {
			q.AddWith("k", workqueue.AddOptions{Priority: 1, RateLimited: true})
		},
	}
	for name, enter := range states {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[string]{Aging: -1, MaxAttempts: 1, Logger: discard}))
				enter(q)
				q.AddWith("k", prio(0))
				q.AddWith("k", prio(-5))
				require.Equal(t, 1, q.Snapshot()[0].Priority)
				q.AddWith("k", prio(2))
				require.Equal(t, 2, q.Snapshot()[0].Priority)
				require.NoError(t, q.CheckInvariants())
				q.Done("k")
				q.AddWith("before", prio(2))
				q.AddWith("after", prio(1))
				if name != "in process" && name != "dirty" {
					require.Equal(t, []string{"k", "before", "after"}, finishAll(q))
				}
				q.ShutDown()
			})
		})
	}
}

// A raised key moves to the place that it would have if it had always had the priority: its waiting time counts.
func TestRaisedKeyKeepsItsWaitingTime(t *testing.T) {
	for _, aging := range []time.Duration{-1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Aging: aging}))
			for i := range 10 {
				q.AddWith(fmt.Sprint("low ", i), prio(1))
				time.Sleep(time.Nanosecond)
				q.AddWith(fmt.Sprint("high ", i), prio(2))
				time.Sleep(time.Nanosecond)
			}
			for _, i := range []int{3, 8, 1, 9, 0} {
				q.AddWith(fmt.Sprint("low ", i), prio(2))
				require.NoError(t, q.CheckInvariants())
			}
			require.True(t, q.Cancel("low 8"))
			require.NoError(t, q.CheckInvariants())
			require.Equal(t, strings.Split("low 0,high 0,low 1,high 1,high 2,low 3,high 3,high 4,high 5,high 6,high 7,high 8,low 9,high 9", ","),
				takeAll(q)[:14])
		})
	}
}

func TestFirstPriorityKeepsReadyKeysInOrder(t *testing.T) {
	for _, timestamps := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Timestamps: timestamps}))
			q.Add("a")
			q.Add("b")
			time.Sleep(11 * time.Second)
			q.AddWith("first with a priority", prio(1))
			require.NoError(t, q.CheckInvariants())
			want := []string{"first with a priority", "a", "b"} // as if a and b were ready since now
			if timestamps {
				want = []string{"a", "b", "first with a priority"}
			}
			require.Equal(t, want, takeAll(q))
		})
	}
}

func TestMoreThanSixteenPrioritiesAreSeparateAndReleased(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[string]{Aging: -1}))
	var want []string
	for i := range 3000 {
		p := i*7919%3000 - 1500
		q.AddWith(fmt.Sprint(p), prio(p))
		want = append(want, fmt.Sprint(1499-i))
	}
	require.NoError(t, q.CheckInvariants())
	require.Equal(t, want, finishAll(q))
	require.NoError(t, q.CheckInvariants())
	require.LessOrEqual(t, q.Levels(), 16)
}
