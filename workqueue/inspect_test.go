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
	q.Park("parked", "") // at 3
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
			backoff := at(2).Add(5 * time.Millisecond)
			want := []workqueue.KeyInfo[string]{
				{Key: "waits", State: workqueue.Ready, Since: noted(9), Priority: -3, Group: "w", Reasons: why("waits", 8)},
				{Key: "next", State: workqueue.Ready, Since: noted(10), Priority: 2, Group: "n", Reasons: why("next", 9)},
				{Key: "process", State: workqueue.InProcess, Since: noted(4), Group: "p", Reasons: why("process", 3)},
				{Key: "dirty", State: workqueue.InProcess, Dirty: true, Since: noted(6), Priority: 1, Group: "d", Reasons: why("dirty", 5, 7)},
				{Key: "early", State: workqueue.Delayed, Since: noted(11), Next: at(31), Group: "e"},
				{Key: "late", State: workqueue.Delayed, Since: noted(10), Next: at(60), Group: "l"},
				{Key: "quiet", State: workqueue.Delayed, Since: noted(12), QuietUntil: at(12 + int64(time.Hour)), Group: "q"},
				{Key: "parked", State: workqueue.Parked, Since: at(3), Next: at(103), Group: "p", Failures: 2, FirstFailure: at(2), BackoffUntil: backoff},
				{
					Key: "remembered", State: workqueue.Remembered, Since: at(2), Group: "r", Failures: 1, FirstFailure: at(2), BackoffUntil: backoff,
					Reasons: why("remembered", 0),
				},
			}
			diff := cmp.Diff(want, q.Snapshot(), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }))
			require.Empty(t, diff)
			q.ShutDown()
		})
	}
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
		q := must(workqueue.New(workqueue.Config[int]{MaxAttempts: 2, RateLimiter: limiterOf[int](time.Hour)}))
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

func TestStatesHaveNames(t *testing.T) {
	var got []string
	for s := workqueue.State(0); s <= workqueue.Remembered+1; s++ {
		got = append(got, s.String())
	}
	require.Equal(t, []string{"Unknown", "Ready", "InProcess", "Delayed", "Parked", "Remembered", "Unknown"}, got)
}

func TestAllAndInfoMatchSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := workqueue.New(workqueue.Config[int]{
			Timestamps: true, MaxAttempts: 2, Group: func(key int) string { return string(rune('a' + key%3)) },
		})
		require.NoError(t, err)
		q.AddAfter(-1, time.Hour) // the first change of a queue
		for i := range 1000 {
			switch i % 6 {
			case 0:
				q.AddWith(i, workqueue.AddOptions{Priority: i % 4, Reason: "new"})
			case 1:
				q.AddAfter(i, time.Duration(i+1)*time.Second)
			case 2:
				q.AddRateLimited(i)
			case 3:
				q.AddRateLimited(i)
				q.AddRateLimited(i) // parked
			case 4:
				q.AddRateLimited(i)
				q.Cancel(i) // remembered
			case 5:
				q.Add(i)
				q.Cancel(i) // absent
			}
		}
		for range 50 {
			item, ok := q.TryTake()
			require.True(t, ok)
			q.Add(item.Key)
		}
		want := make(map[int]workqueue.KeyInfo[int])
		for _, info := range q.Snapshot() {
			want[info.Key] = info
		}
		require.NotEmpty(t, want)
		got := make(map[int]workqueue.KeyInfo[int])
		for info := range q.All() {
			assert.NotContains(t, got, info.Key)
			got[info.Key] = info
		}
		assert.Equal(t, want, got)
		for i := range 1000 {
			info, ok := q.Info(i)
			_, present := want[i]
			assert.Equal(t, present, ok, i)
			assert.Equal(t, want[i], info, i)
		}
		for range q.All() {
			break // and no more
		}
	})
}

func TestAllSkipsNoRemainingKey(t *testing.T) {
	q, err := workqueue.New(workqueue.Config[int]{})
	require.NoError(t, err)
	const stay = 3000
	for i := range stay {
		q.Add(i)
	}
	var seen []int
	n := 0
	for info := range q.All() { // the queue is not locked here
		if info.Key < stay {
			seen = append(seen, info.Key)
		}
		n++
		q.Add(stay + n)
		q.Cancel(stay + n/2)
	}
	slices.Sort(seen)
	assert.Len(t, slices.Compact(seen), stay)
	assert.Len(t, seen, stay, "each once")
}

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
			Timestamps: true, MaxAttempts: 2, Debounce: time.Second, RateLimiter: limiterOf[string](time.Second), Logger: discard,
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
		assert.Equal(t, time.Hour+15*time.Microsecond, got.Waited.Sum, "the second dispatch has waited since the addition while in process")
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
