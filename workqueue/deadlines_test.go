package workqueue_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestRepeatedWakeUpKeepsPlaceAmongEqualTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, k := range []string{"a", "b", "a"} {
			q.AddAfter(k, time.Second)
		}
		for _, k := range []string{"c", "d", "c"} {
			q.AddWith(k, workqueue.AddOptions{RateLimited: true, After: time.Second})
		}
		sleep(time.Second)
		require.Equal(t, []string{"a", "b", "c", "d"}, q.Ready())
		q.ShutDown()
	})
}

func TestTimerForAnotherKeyForgetsNoFailureEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.AddRateLimited("k")
		sleep(time.Minute)
		item, _ := q.TryTake()
		item.Done()
		q.AddAfter("other", time.Hour-1)
		sleep(time.Hour - 1)
		require.Equal(t, 1, q.NumRequeues("k"))
		sleep(1)
		require.Zero(t, q.NumRequeues("k"))
		q.ShutDown()
	})
}

func TestDelayPastTheEndOfTimeNeverFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		time.Sleep(time.Hour)
		q.AddAfter("k", math.MaxInt64)
		time.Sleep(24 * 365 * time.Hour)
		require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		q.AddAfter("k", time.Second)
		begin := time.Now()
		q.Get()
		require.Equal(t, time.Second, time.Since(begin))
	})
}

// planned is a wake-up of the model of the schedule, which is a slice in order.
type planned struct {
	key, number int
	due         time.Time
}

// runSchedule plays bytes on the deadlines of a queue and on a slice: wake-ups are moved, canceled, and due, among many that are due at the
// same time. The numbers of deadlines run out in between.
func runSchedule(t *testing.T, ops []byte) error {
	const keys = 12
	var added []int
	q := must(workqueue.New(workqueue.Config[int]{Hooks: workqueue.Hooks[int]{Added: func(key, _ int) { added = append(added, key) }}}))
	defer q.ShutDown()
	q.UseUpDeadlines(uint32(len(ops) / 3))
	var model []planned
	fire := func(d time.Duration) error {
		sleep(d)
		var want []int
		for len(model) > 0 && !model[0].due.After(time.Now()) {
			want, model = append(want, model[0].key), model[1:]
		}
		if !slices.Equal(added, want) {
			return fmt.Errorf("%v were due, want %v", added, want)
		}
		added = nil
		for item, ok := q.TryTake(); ok; item, ok = q.TryTake() {
			item.Done()
		}
		return nil
	}
	for i, op := range ops {
		key := int(op>>3) % keys
		without := slices.DeleteFunc(slices.Clone(model), func(p planned) bool { return p.key == key })
		switch op & 7 {
		case 0, 1, 2, 3, 4: // with many that are equal, and each moves now to the front, now to the back
			due := time.Now().Add(time.Duration(1 + op&3*3 + byte(i)%5))
			q.AddWith(key, workqueue.AddOptions{At: due, Replace: true})
			model = append(without, planned{key, i, due})
			slices.SortFunc(model, func(a, b planned) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.number, b.number)) })
		case 5, 6:
			if q.Cancel(key) != (len(without) < len(model)) {
				return fmt.Errorf("step %d: Cancel reports another than %v", i, len(without) < len(model))
			}
			model = without
		case 7:
			if i%4 == 0 && len(model) > 0 {
				if err := fire(time.Until(model[0].due)); err != nil {
					return fmt.Errorf("step %d: %w", i, err)
				}
			}
		}
		if err := q.CheckInvariants(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		var got, want []int
		for _, info := range q.Snapshot() {
			got = append(got, info.Key)
		}
		for _, p := range model {
			want = append(want, p.key)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("step %d: %v are delayed, want %v", i, got, want)
		}
	}
	return fire(time.Hour)
}

func TestScheduleMatchesSortedSlice(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		ops := make([]byte, 300)
		for i := range ops {
			ops[i] = byte(r.Uint32())
			if seed%2 == 1 && ops[i]&4 != 0 { // moved time and again, and hardly ever removed: much that does not count
				ops[i] &= byte(r.Uint32())
			}
		}
		synctest.Test(t, func(t *testing.T) { require.NoError(t, runSchedule(t, ops), "seed %d", seed) })
	}
}

func FuzzScheduleMatchesSortedSlice(f *testing.F) {
	f.Add([]byte{0, 8, 16, 1, 9, 6, 12, 7, 15, 3, 3, 3})
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { require.NoError(t, runSchedule(t, ops[:min(len(ops), 500)])) })
	})
}

// A deadline may remain from a key whose memory was freed, and must not be that of its successor.
func TestStaleDeadlineOfRemovedKeyIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20_000
		q := must(workqueue.New(workqueue.Config[int]{}))
		for key := range n {
			q.AddAfter(key, time.Duration(key+1))
		}
		for key := range n - 1 { // of each, the deadline is in the heap until it is the first, or half of them do not count
			q.Cancel(key)
		}
		require.NoError(t, q.CheckInvariants())
		sleep(n - 1)
		require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		sleep(1)
		require.Equal(t, []int{n - 1}, q.Ready())
	})
}

// A key that is rescheduled repeatedly leaves only a bounded number of stale deadlines.
func TestStaleDeadlinesTakeLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{}))
		for i := range 20_000 {
			q.AddAfter(i%100, time.Duration(20_001-i)) // each comes before all others, so that nothing old gets to the top
			require.LessOrEqual(t, q.Kept(), 1024)
		}
		require.NoError(t, q.CheckInvariants())
		require.Equal(t, workqueue.Stats{Delayed: 100}, q.Stats())
		q.ShutDown()
	})
}

func TestScheduleReleasesMemoryAfterBurst(t *testing.T) {
	const n = 10_000
	for name, finish := range map[string]func(q *workqueue.Queue[int]){
		"the first is removed each time": func(q *workqueue.Queue[int]) {
			for key := range n {
				q.Cancel(key)
			}
		},
		"the last is removed each time": func(q *workqueue.Queue[int]) {
			for key := range n {
				q.Cancel(n - 1 - key)
			}
		},
		"all are due": func(q *workqueue.Queue[int]) {
			sleep(n)
			for item, ok := q.TryTake(); ok; item, ok = q.TryTake() {
				item.Done()
			}
		},
		"all end with a shutdown": (*workqueue.Queue[int]).ShutDown,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := must(workqueue.New(workqueue.Config[int]{}))
				for key := range n {
					q.AddAfter(key, time.Duration(key+1))
				}
				require.GreaterOrEqual(t, q.Kept(), n)
				finish(q)
				require.Zero(t, q.Stats())
				require.LessOrEqual(t, q.Kept(), 4096+128, "and free entries of a used chunk")
				require.NoError(t, q.CheckInvariants())
			})
		})
	}
}

func TestKeysDueTogetherDoNotStallCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		var q *workqueue.Queue[int]
		added, ready := 0, 0
		q = must(workqueue.New(workqueue.Config[int]{Hooks: workqueue.Hooks[int]{Added: func(k, _ int) {
			// Those whose hook was not called yet were made ready under one hold of the lock with this one.
			ready = max(ready, q.Len()-added)
			if k != added {
				t.Errorf("%d comes as number %d", k, added)
			}
			added++
		}}}))
		for k := range n {
			q.AddAfter(k, time.Second)
		}
		sleep(time.Second)
		require.Equal(t, workqueue.Stats{Ready: n}, q.Stats(), "no time has passed")
		require.Equal(t, n, added)
		require.LessOrEqual(t, ready, 1000)
		require.NoError(t, q.CheckInvariants())
	})
}

// The longest time that an Add, and a Get, had to wait while a million keys came due.
func BenchmarkAddAndGetWhileMillionKeysComeDue(b *testing.B) {
	for b.Loop() {
		const n = 1_000_000
		q := must(workqueue.New(workqueue.Config[int]{}))
		begin := time.Now()
		const wait = 3 * time.Second
		for k := range n {
			q.AddWith(k, workqueue.AddOptions{At: begin.Add(wait)})
		}
		if time.Since(begin) > wait-100*time.Millisecond {
			b.Fatal("too slow")
		}
		time.Sleep(wait - 50*time.Millisecond - time.Since(begin))
		var stop atomic.Bool
		longest := func(call func()) chan time.Duration {
			result := make(chan time.Duration)
			go func() {
				var worst time.Duration
				for !stop.Load() {
					start := time.Now()
					call()
					worst = max(worst, time.Since(start))
				}
				result <- worst
			}()
			return result
		}
		add := longest(func() { q.Add(-1) })
		get := longest(func() {
			if k, ok := tryGet(q); ok {
				q.Done(k)
			}
		})
		for q.Stats().Delayed > 0 {
			time.Sleep(time.Millisecond)
		}
		stop.Store(true)
		b.ReportMetric(float64((<-add).Microseconds()), "µs-add")
		b.ReportMetric(float64((<-get).Microseconds()), "µs-get")
	}
}

const quiet, longest = time.Second, 5 * time.Second

func debounced() *workqueue.Queue[string] {
	return must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: longest, Logger: discard}))
}

func TestDebounceWaitsForQuietPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := debounced()
		for range 3 {
			q.Add("k")
			require.NoError(t, q.CheckInvariants())
			sleep(quiet - 1)
			require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
		}
		sleep(1)
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		q.Add("k") // waits already
		require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		require.NoError(t, q.CheckInvariants())
	})
}

func TestDebounceWaitsAtMostMaxWait(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{longest: longest, 0: 10 * quiet, quiet: quiet} {
		synctest.Test(t, func(t *testing.T) {
			q := must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: limit}))
			for range want / (quiet / 4) {
				q.Add("k")
				sleep(quiet/4 - 1)
				require.Equal(t, workqueue.Stats{Delayed: 1}, q.Stats())
				sleep(1)
			}
			require.Equal(t, workqueue.Stats{Ready: 1}, q.Stats())
		})
	}
}

func TestDebounceDoesNotOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[string]{Debounce: 1 << 62}))
		time.Sleep(1 << 61)
		q.Add("k")
		q.Add("k")
		require.NoError(t, q.CheckInvariants())
		require.Equal(t, time.Duration(1<<62), dueAfter(t, q))

		never := must(workqueue.New(workqueue.Config[string]{Debounce: quiet, DebounceLimit: math.MaxInt64}))
		sleep(1)
		never.Add("k")
		require.Equal(t, quiet, dueAfter(t, never))
	})
}
