package controller_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// busy returns a reconcile that takes a second, and a function that returns how many are in flight and how many were at most.
func busy() (func(context.Context, string) (controller.Result, error), func() (now, most int64)) {
	var now, most atomic.Int64
	return func(context.Context, string) (controller.Result, error) {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			return controller.Result{}, nil
		}, func() (int64, int64) {
			return now.Load(), most.Swap(0)
		}
}

func TestSetWorkersChangesRunningController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, flights := busy()
		c, reports := newController(t, controller.Config[string]{Workers: 2}, work)
		r := looptest.Start(t, c.Run)
		for i := range 100 {
			c.Add(fmt.Sprint("k", i))
		}
		for _, n := range []int{5, 1, 3, 3, 8, 2} {
			c.SetWorkers(n)
			assert.Equal(t, n, c.Stats().Workers)
			time.Sleep(1500 * time.Millisecond) // what is too much has ended
			flights()
			time.Sleep(2 * time.Second)
			_, most := flights()
			assert.EqualValues(t, n, most)
		}
		for _, r := range reports.Take() {
			assert.Equal(t, controller.Succeeded, r.Outcome, "nothing is truncated")
		}
		require.NoError(t, r.Stop())
		c.SetWorkers(4)
		looptest.Start(t, c.Run)
		for i := range 10 {
			c.Add(fmt.Sprint("k", i))
		}
		synctest.Wait()
		_, most := flights()
		assert.EqualValues(t, 4, most, "the next run has them, too")
		assert.PanicsWithValue(t, "controller: SetWorkers called with 0, must be positive", func() { c.SetWorkers(0) })
	})
}

func TestPausedControllerStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work, flights := busy()
		c, reports := newController(t, controller.Config[string]{Workers: 3}, work)
		looptest.Start(t, c.Run)
		for i := range 10 {
			c.Add(fmt.Sprint("k", i))
		}
		synctest.Wait()
		c.Pause()
		assert.True(t, c.Stats().Paused)
		time.Sleep(time.Hour)
		assert.Len(t, reports.Take(), 3, "reconciles in flight continued")
		assert.Equal(t, 7, c.Stats().Queue.Ready)

		c.Resume()
		synctest.Wait()
		now, _ := flights()
		assert.EqualValues(t, 3, now)
		for range 10 { // workers that are busy stay
			c.Pause()
			c.Resume()
		}
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 7)
		_, most := flights()
		assert.EqualValues(t, 3, most, "and they are bounded")
	})
}

func TestPauseOutlivesRunAndDoesNotDelayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		c.Pause()
		r := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Minute)
		began := time.Now()
		require.NoError(t, r.Stop(), "paused keys are not drained")
		assert.Zero(t, time.Since(began))
		assert.Empty(t, reports.Take())
		_, ok := next(t.Context(), c)
		assert.False(t, ok)

		r = looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Empty(t, reports.Take())
		c.Resume()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()))

		c.Add("b")
		c.Add("c")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Pause()
		began = time.Now()
		require.NoError(t, r.Stop(), "it ends a drain")
		assert.Equal(t, time.Second, time.Since(began), "b was in flight")
		assert.Equal(t, []string{"b"}, keysOf(reports.Take()))
		c.CheckInvariants(t)
		c.Resume()
		_, ok = next(t.Context(), c)
		assert.True(t, ok)
		assertNoGoroutines(t)
	})
}

func TestPausedKeyIsHeldUntilResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("in flight")
		synctest.Wait()
		c.PauseKey("in flight")
		c.PauseKey("a")
		c.PauseKey("idle")
		for range 3 {
			c.Add("in flight")
			c.Add("a")
			c.Add("b")
			time.Sleep(time.Minute)
		}
		assert.Equal(t, []string{"in flight", "b", "b", "b"}, keysOf(reports.Take()))
		assert.Equal(t, 2, c.Stats().Held)
		c.CheckInvariants(t)

		require.NoError(t, r.Stop(), "held keys do not delay the stop")
		r = looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Empty(t, reports.Take(), "and is held in the next run")
		c.ResumeKey("a")
		c.ResumeKey("in flight")
		c.ResumeKey("idle")
		c.ResumeKey("no such key")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "in flight"}, keysOf(reports.Take()))
		assert.Zero(t, c.Stats().Held)
		c.CheckInvariants(t)

		c.PauseKey("a")
		c.Add("a")
		synctest.Wait()
		c.Add("b")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.ResumeKey("a")
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"b"}, keysOf(reports.Take()), "a resume during a drain is for the next run")
		report, ok := next(t.Context(), c)
		assert.True(t, ok)
		assert.Equal(t, "a", report.Key)
		c.CheckInvariants(t)
	})
}

func TestWorkerIsReplacedAfterGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Second}}}
		n := 0
		c, reports := newController(t, cfg, func(context.Context, string) (controller.Result, error) {
			if n++; n <= 3 {
				runtime.Goexit()
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		all := reports.Take()
		require.Len(t, all, 4, "the only worker was replaced each time")
		require.ErrorIs(t, all[0].Err, controller.ErrGoexitForTest)
		assert.Equal(t, controller.Succeeded, all[3].Outcome)
		require.NoError(t, r.Stop())
		assertNoGoroutines(t)
		c.CheckInvariants(t)
	})
}

func TestGoexitDuringDrainLeavesNothingUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		c, reports := newController(t, controller.Config[string]{DrainOnStop: true}, func(_ context.Context, key string) (controller.Result, error) {
			if key == "a" {
				<-leave
				runtime.Goexit()
			}
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		close(leave)
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"a", "b"}, keysOf(reports.Take()))
		assertNoGoroutines(t)
	})
}

// BenchmarkEndWorkers measures how long idle workers take to end, per worker. When each worker was looked for among all others,
// 16 times as many workers took 25 times as long each.
func BenchmarkEndWorkers(b *testing.B) {
	for _, workers := range []int{1_000, 16_000} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c, _ := newController(b, controller.Config[string]{Workers: workers}, noop)
				r := looptest.Start(b, c.Run)
				c.Add("a")
				require.NoError(b, c.WaitIdle(b.Context())) // it has begun
				b.StartTimer()
				require.NoError(b, r.Stop())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*workers), "ns/worker")
		})
	}
}
