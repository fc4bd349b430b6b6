package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

// everyState makes a queue with a key in each state, at times that differ.
func everyState(cfg workqueue.Config[string]) *workqueue.Queue[string] {
	cfg.MaxAttempts, cfg.Group, cfg.Debounce = 2, byLetter, time.Hour
	q := must(workqueue.New(cfg))
	soon := func(k string, p int) {
		q.AddWith(k, workqueue.AddOptions{Priority: p, After: 1, Reason: "for " + k})
		sleep(1)
	}
	soon("remembered", 7)
	tryGet(q)
	sleep(1)
	q.AddRateLimited("remembered")
	q.Cancel("remembered")
	q.Done("remembered") // at 2
	q.AddRateLimited("parked")
	sleep(1)
	q.AddRateLimited("parked") // at 3
	q.AddAfter("parked", 100)
	soon("process", 0)
	tryGet(q) // at 4
	sleep(1)
	soon("dirty", 1)
	tryGet(q) // at 6
	sleep(1)
	soon("dirty", 1)
	soon("waits", -3) // at 9
	soon("next", 2)   // at 10
	q.AddAfter("late", 50)
	sleep(1)
	q.AddAfter("early", 20)
	sleep(1)
	q.Add("quiet") // at 12
	return q
}

func TestSnapshotShowsEveryState(t *testing.T) {
	for _, timestamps := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			at := func(n int64) time.Time { return begin.Add(time.Duration(n)) }
			noted := func(n int64) time.Time {
				if !timestamps {
					return time.Time{}
				}
				return at(n)
			}
			q := everyState(workqueue.Config[string]{Timestamps: timestamps})
			require.NoError(t, q.CheckInvariants())
			why := func(k string, ns ...int64) (reasons []workqueue.Reason) {
				for _, n := range ns {
					reasons = append(reasons, workqueue.Reason{Text: "for " + k, At: at(n)})
				}
				return reasons
			}
			want := []workqueue.KeyInfo[string]{
				{Key: "waits", State: workqueue.Ready, Since: noted(9), Priority: -3, Group: "w", Reasons: why("waits", 8)},
				{Key: "next", State: workqueue.Ready, Since: noted(10), Priority: 2, Group: "n", Reasons: why("next", 9)},
				{Key: "process", State: workqueue.InProcess, Since: noted(4), Group: "p", Reasons: why("process", 3)},
				{Key: "dirty", State: workqueue.InProcess, Dirty: true, Since: noted(6), Priority: 1, Group: "d", Reasons: why("dirty", 5, 7)},
				{Key: "early", State: workqueue.Delayed, Since: noted(11), Next: at(31), Group: "e"},
				{Key: "late", State: workqueue.Delayed, Since: noted(10), Next: at(60), Group: "l"},
				{Key: "quiet", State: workqueue.Delayed, Since: noted(12), QuietUntil: at(12 + int64(time.Hour)), Group: "q"},
				{Key: "parked", State: workqueue.Parked, Since: at(3), Next: at(103), Group: "p", Failures: 2, FirstFailure: at(2)},
				{
					Key: "remembered", State: workqueue.Remembered, Since: at(2), Group: "r", Failures: 1, FirstFailure: at(2),
					Reasons: why("remembered", 0),
				},
			}
			diff := cmp.Diff(want, q.Snapshot(), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }))
			require.Empty(t, diff)
			q.ShutDown()
		})
	}
}

func TestDelayedKeyIsDelayedSinceDone(t *testing.T) {
	for _, timestamps := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Timestamps: timestamps}))
			q.Add("k")
			sleep(time.Second)
			tryGet(q)
			sleep(time.Second)
			q.AddAfter("k", time.Hour)
			sleep(time.Second)
			q.Done("k")
			since := q.Snapshot()[0].Since
			require.Equal(t, timestamps, since.Equal(time.Now()))
			require.Equal(t, timestamps, !since.IsZero())
			q.ShutDown()
		})
	}
}

func TestSnapshotAgreesWithStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := everyState(workqueue.Config[string]{})
		require.Equal(t, workqueue.Stats{Ready: 2, InProcess: 2, Dirty: 1, Delayed: 4, Parked: 1, Remembered: 1}, q.Stats())
		require.Equal(t, q.Stats(), counted(q.Snapshot()))
		q.ShutDown()
		require.Equal(t, q.Stats(), counted(q.Snapshot()))
	})
}

// counted makes Stats of a snapshot.
func counted[K comparable](infos []workqueue.KeyInfo[K]) (s workqueue.Stats) {
	for _, info := range infos {
		switch info.State {
		case workqueue.Ready:
			s.Ready++
		case workqueue.InProcess:
			s.InProcess++
		case workqueue.Parked:
			s.Parked++
		case workqueue.Remembered:
			s.Remembered++
		}
		if info.Dirty {
			s.Dirty++
		}
		if !info.Next.IsZero() || !info.QuietUntil.IsZero() {
			s.Delayed++
		}
	}
	return s
}

// Map order never shows, even without Timestamps.
func TestSnapshotIsInInsertionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{MaxAttempts: 2, RateLimiter: limiterOfInt(time.Hour)}))
		var want []int
		for i := range 400 {
			k := i * 37 % 400
			want = append(want, k)
			switch {
			case i < 100:
				q.Add(k)
				tryGet(q)
			case i < 200:
				q.Add(k)
			case i < 300:
				q.AddAfter(k, time.Hour) // due at the same time
			default:
				q.AddRateLimited(k)
				q.AddRateLimited(k)
			}
		}
		want = slices.Concat(want[100:200], want[:100], want[200:])
		var got []int
		for _, info := range q.Snapshot() {
			got = append(got, info.Key)
		}
		require.Equal(t, want, got)
		q.ShutDown()
	})
}

type limiterOfInt time.Duration

func (l limiterOfInt) When(int) time.Duration { return time.Duration(l) }
func (limiterOfInt) Forget(int)               {}
func (limiterOfInt) NumRequeues(int) int      { return 0 }

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

// Mutating a snapshot or an item does not affect the queue.
func TestReasonsAreCopied(t *testing.T) {
	q := newQueue()
	q.AddWith("k", workqueue.AddOptions{Reason: "why"})
	q.Snapshot()[0].Reasons[0].Text = "overwritten"
	item, _ := q.TryTake()
	item.Reasons[0].Text = "overwritten"
	require.Equal(t, "why", q.Snapshot()[0].Reasons[0].Text)
}

func TestStatesHaveNames(t *testing.T) {
	var got []string
	for s := workqueue.State(0); s <= workqueue.Remembered+1; s++ {
		got = append(got, s.String())
	}
	require.Equal(t, []string{"Unknown", "Ready", "InProcess", "Delayed", "Parked", "Remembered", "Unknown"}, got)
}

func TestStatsReportTimeInProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Timestamps: true}))
		q.Add("a")
		q.Add("b")
		sleep(time.Hour) // to be ready is not to be in process
		require.Zero(t, q.Stats().Unfinished)
		tryGet(q)
		sleep(3 * time.Second)
		tryGet(q)
		sleep(4 * time.Second)
		q.Add("b") // makes no difference
		s := q.Stats()
		require.Equal(t, 7*time.Second, s.LongestRunning)
		require.Equal(t, 11*time.Second, s.Unfinished)
		q.Done("a")
		s = q.Stats()
		require.Equal(t, 4*time.Second, s.LongestRunning)
		require.Equal(t, 4*time.Second, s.Unfinished)
		q.Done("b")
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())

		without := newQueue()
		without.Add("a")
		tryGet(without)
		sleep(time.Second)
		require.Equal(t, workqueue.Stats{InProcess: 1}, without.Stats())
	})
}

func TestSnapshotIsConsistentUnderLoad(t *testing.T) {
	q := must(workqueue.New(workqueue.Config[int]{Timestamps: true}))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	const keys = 50
	for k := range keys {
		q.Add(k)
	}
	wg.Go(func() {
		assert.NoError(t, q.Run(ctx, 3, func(_ context.Context, item workqueue.Item[int]) error {
			q.AddWith(item.Key, workqueue.AddOptions{Priority: item.Key % 3, Reason: "again"})
			return nil
		}))
	})
	for range 200 {
		infos := q.Snapshot()
		s := counted(infos)
		assert.Equal(t, keys, s.Ready+s.InProcess, "each key is in one state")
		assert.LessOrEqual(t, s.InProcess, 3)
		seen := map[int]bool{}
		for _, info := range infos {
			seen[info.Key] = true
		}
		assert.Len(t, seen, keys)
	}
	cancel()
	wg.Wait()
	require.NoError(t, q.CheckInvariants())
}

func TestReasonStringHasTextAndTime(t *testing.T) {
	reason := workqueue.Reason{Text: "a page was edited", At: time.Date(2026, 1, 2, 15, 4, 5, 6, time.UTC)}
	assert.Equal(t, "a page was edited, at 15:04:05", fmt.Sprint(reason))
}
