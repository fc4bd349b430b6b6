package workqueue_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestKeysDueTogetherDoNotStallCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		var q *workqueue.Queue[int]
		told, ready := 0, 0
		q = must(workqueue.New(workqueue.Config[int]{Hooks: workqueue.Hooks[int]{Added: func(k int) {
			// Those whose hook was not called yet were made ready under one hold of the lock with this one.
			ready = max(ready, q.Len()-told)
			if k != told {
				t.Errorf("%d comes as number %d", k, told)
			}
			told++
		}}}))
		for k := range n {
			q.AddAfter(k, time.Second)
		}
		sleep(time.Second)
		require.Equal(t, workqueue.Stats{Ready: n}, q.Stats(), "no time has passed")
		require.Equal(t, n, told)
		require.LessOrEqual(t, ready, 1000)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownBetweenBatchesDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		var q *workqueue.Queue[int]
		q = must(workqueue.New(workqueue.Config[int]{Hooks: workqueue.Hooks[int]{Added: func(int) { q.ShutDown() }}}))
		for k := range n {
			q.AddAfter(k, time.Second)
		}
		sleep(time.Hour)
		require.Less(t, q.Len(), n)
		require.Zero(t, q.Stats().Delayed)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownReleasesLockBetweenBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		q := must(workqueue.New(workqueue.Config[int]{}))
		for k := range n {
			q.AddAfter(k, time.Duration(n-k)*time.Second)
			q.AddAfter(k, time.Duration(k+1)*time.Second)
		}
		q.BeginShutDown()
		steps := 1
		for before := q.Stats().Delayed; q.EndSome(); steps++ {
			now := q.Stats().Delayed
			require.Positive(t, before-now)
			require.LessOrEqual(t, before-now, 256+1, "with the one that this test cancels")
			before = now
			q.Add(n + steps)
			q.Cancel(steps)
			if steps == 3 {
				sleep(time.Hour)
			}
		}
		require.GreaterOrEqual(t, steps, n/256)
		require.Equal(t, workqueue.Stats{}, q.Stats(), "no key was added or came due")
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownLosesNoDebouncedKeyToFastWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1_000
		var q *workqueue.Queue[int]
		cfg := workqueue.Config[int]{Debounce: time.Minute}
		batches := 0
		cfg.Hooks.Added = func(int) {
			if batches++; batches%300 == 0 { // once or twice between two batches: the workers take all that is ready
				synctest.Wait()
			}
		}
		q = must(workqueue.New(cfg))
		var want []int
		for k := range n {
			q.Add(k)
			if k%3 == 0 {
				q.AddAfter(k, time.Duration(1+k%7)*time.Second) // ends no quiet time, whatever comes first
			}
			want = append(want, k)
			sleep(1)
		}
		q.AddAfter(n, time.Second)
		ended := make(chan []int, 2)
		for _, take := range []func() (int, bool){
			func() (int, bool) { k, err := next(q, t.Context()); return k, err == nil },
			func() (int, bool) { k, shutdown := q.Get(); return k, !shutdown },
		} {
			go func() {
				var got []int
				for k, ok := take(); ok; k, ok = take() {
					got = append(got, k)
					q.Done(k)
				}
				ended <- got
			}()
		}
		synctest.Wait()
		require.NoError(t, q.Drain(t.Context()))
		got := append(<-ended, <-ended...)
		slices.Sort(got)
		require.Equal(t, want, got)
		require.NoError(t, q.CheckInvariants())
	})
}

func TestShutDownReadiesDebouncedKeysInDueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must(workqueue.New(workqueue.Config[int]{Debounce: time.Minute}))
		var want []int
		for k := range 1_000 {
			q.Add(k)
			q.AddAfter(k, time.Duration(1+k*7%1000)*time.Second)
			want = append(want, k)
			sleep(1)
		}
		q.ShutDown()
		require.Equal(t, want, q.Ready())
		require.Equal(t, workqueue.Stats{Ready: 1_000}, q.Stats())
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
