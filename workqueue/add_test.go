package workqueue_test

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

var (
	_ workqueue.RateLimitingInterface[string] = (*workqueue.Queue[string])(nil)
	_ workqueue.RateLimiter[string]           = (*workqueue.ItemFastSlowRateLimiter[string])(nil)
)

func TestAddWhileProcessingQueuesOnceAfterDone(t *testing.T) {
	q := newQueue()
	q.Add("k")
	q.Get()
	for range 3 {
		q.Add("k")
		require.Zero(t, q.Len())
	}
	q.Add("other")
	q.Done("k")
	require.Equal(t, []string{"other", "k"}, finishAll(q), "at the end of the queue")
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

func TestConflictingAddOptionsPanic(t *testing.T) {
	q := newQueue()
	const exclusive = "workqueue: AddWith: only one of After and At can be set"
	for _, opts := range []workqueue.AddOptions{
		{After: 1, At: time.Now()}, {After: -1, At: time.Now()}, {After: 1, At: time.Now(), RateLimited: true},
	} {
		require.PanicsWithValue(t, exclusive, func() { q.AddWith("k", opts) })
	}
	require.Equal(t, workqueue.Stats{}, q.Stats())
}

// Each method that takes a key rejects one that is not equal to itself, before it takes the lock.
func TestEveryMethodRejectsKeyUnequalToItself(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[any]{RateLimiter: nil, Debounce: 1, MaxAttempts: 1}))
	for _, key := range []any{math.NaN(), []int{1}, struct{ v any }{map[string]int{}}} {
		for name, call := range map[string]func(){
			"Add":            func() { q.Add(key) },
			"AddAfter":       func() { q.AddAfter(key, time.Hour) },
			"AddRateLimited": func() { q.AddRateLimited(key) },
			"AddWith":        func() { q.AddWith(key, workqueue.AddOptions{}) },
			"Done":           func() { q.Done(key) },
			"Cancel":         func() { q.Cancel(key) },
			"Forget":         func() { q.Forget(key) },
			"NumRequeues":    func() { q.NumRequeues(key) },
			"DropParked":     func() { q.DropParked(key) },
			"TryTakeKey":     func() { q.TryTakeKey(key) },
			"Info":           func() { q.Info(key) },
		} {
			require.Panics(t, call, "%s of %v", name, key)
			require.Equal(t, workqueue.Stats{}, q.Stats())
		}
	}
	require.Empty(t, q.Snapshot())
	require.PanicsWithValue(t, "workqueue: the key is not equal to itself", func() { q.Add(math.NaN()) })
	q.Add("the lock is free")
}

func TestLastEightReasonsAreKept(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 16, 21} {
		q := newQueue()
		var want []string
		q.Add("k")
		for i := range n {
			q.AddWith("k", workqueue.AddOptions{Reason: fmt.Sprint(i)})
			want = append(want, fmt.Sprint(i))
		}
		q.AddWith("k", workqueue.AddOptions{}) // none
		var got []string
		for _, r := range q.Snapshot()[0].Reasons {
			got = append(got, r.Text)
		}
		require.Equal(t, want[max(0, n-8):], got)
		tryGet(q)
		q.Done("k")
		q.Add("k")
		require.Empty(t, q.Snapshot()[0].Reasons, "dropped with the key")
	}
}

// A key from another queue keeps the times of its reasons, and a reason that stands there already is not repeated.
func TestReasonsFromElsewhereKeepTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, other := newQueue(), newQueue()
		q.AddWith("k", workqueue.AddOptions{Reason: "first"})
		time.Sleep(time.Second)
		q.AddWith("k", workqueue.AddOptions{Reason: "second"})
		item, _ := q.TryTake()
		time.Sleep(time.Second)
		for range 2 {
			other.AddWith("k", workqueue.AddOptions{Reasons: item.Reasons})
		}
		other.AddWith("k", workqueue.AddOptions{Reasons: item.Reasons[1:], Reason: "moved"})
		want := append(item.Reasons, workqueue.Reason{Text: "moved", At: time.Now()})
		require.Equal(t, want, other.Snapshot()[0].Reasons)
	})
}

// Mutating a snapshot or an item does not affect the queue.
func TestReasonsAreCopied(t *testing.T) {
	q := newQueue()
	q.AddWith("k", workqueue.AddOptions{Reason: "why"})
	q.Snapshot()[0].Reasons[0].Text = "overwritten"
	item, _ := q.TryTake()
	item.Reasons[0].Text = "overwritten"
	require.Equal(t, "why", q.Snapshot()[0].Reasons[0].Text)
}

func TestReasonStringHasTextAndTime(t *testing.T) {
	reason := workqueue.Reason{Text: "a page was edited", At: time.Date(2026, 1, 2, 15, 4, 5, 6, time.UTC)}
	assert.Equal(t, "a page was edited, at 15:04:05", fmt.Sprint(reason))
}
