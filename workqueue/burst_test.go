package workqueue_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue"
)

func TestKeysThatAreDueTogetherStallNobody(t *testing.T) {
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

func TestAShutdownBetweenTwoBatchesDropsTheRest(t *testing.T) {
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

// The longest time that an Add, and a Get, had to wait while a million keys came due.
func BenchmarkAddAndGetWhileAMillionKeysComeDue(b *testing.B) {
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
			if k, ok := q.TryGet(); ok {
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
