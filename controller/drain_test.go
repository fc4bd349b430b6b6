package controller_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow is a reconcile that takes a second, unless its context ends.
func slow(ctx context.Context, _ string) (controller.Result, error) {
	select {
	case <-time.After(time.Second):
		return controller.Result{}, nil
	case <-ctx.Done():
		return controller.Result{}, context.Cause(ctx)
	}
}

func TestStopDrainsQueuedDirtyAndInFlightKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("in flight and dirty")
		synctest.Wait()
		c.Add("in flight and dirty")
		c.Add("queued")
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, 3*time.Second, time.Since(began))
		reported := reports.Take()
		assert.Equal(t, []string{"in flight and dirty", "queued", "in flight and dirty"}, keysOf(reported))
		for _, r := range reported {
			assert.Equal(t, controller.Succeeded, r.Outcome)
		}
		assert.Zero(t, c.Stats().Queue.Ready)
		c.CheckInvariants(t)
	})
}

func TestDrainLeavesDelayedKeysToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := time.Hour
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: after}, nil
		})
		r := looptest.Start(t, c.Run)
		keys := []string{"h", "a", "g", "b", "f", "c", "e", "d"}
		for _, key := range keys {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Zero(t, time.Since(began))
		assert.Len(t, reports.Take(), len(keys))

		after = 0
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, keys, keysOf(reports.Take()), "in the order in which they came")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, reports.Take(), "the wake-up of the earlier run is gone")
		c.CheckInvariants(t)
	})
}

func TestRequeueDuringDrainIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Workers: 3, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Millisecond}}}
		again := true
		c, reports := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			r, err := slow(ctx, key)
			switch {
			case !again:
				return r, err
			case key == "requeued":
				return controller.Result{RequeueAfter: time.Millisecond}, err
			case key == "failed":
				return r, errBoom
			}
			_, err = slow(ctx, key)
			return r, err
		})
		r := looptest.Start(t, c.Run)
		for _, key := range []string{"requeued", "failed", "slow"} {
			c.Add(key)
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, 2*time.Second, time.Since(began))
		assert.Equal(t, []string{"failed", "requeued", "slow"}, sorted(reports.Take()), "each once")
		again = false
		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"failed", "requeued"}, sorted(reports.Take()))
		c.CheckInvariants(t)
	})
}

func TestAddDuringDrainIsLeftToNextRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		r := looptest.Start(t, c.Run)
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		c.Add("a")
		c.Add("late")
		assert.Equal(t, 1, c.Stats().Queue.InProcess, "of the draining queue")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "of the draining queue")
		require.NoError(t, r.Stop())
		assert.Equal(t, []string{"a", "b"}, keysOf(reports.Take()))
		assert.Equal(t, 2, c.Stats().Queue.Ready, "of the next queue")

		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "late"}, keysOf(reports.Take()))
	})
}

func TestDrainTimeoutNamesAndKeepsRemainingKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Workers: 2, DrainTimeout: 2500 * time.Millisecond}, slow)
		r := looptest.Start(t, c.Run)
		for i := range 20 {
			c.Add(fmt.Sprint("k", i))
		}
		synctest.Wait()
		began := time.Now()
		err := r.Stop()
		assert.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, controller.ErrDrainTimeout)
		assert.Contains(t, err.Error(), `controller: run "test": not drained in time: 2.5s have passed: 16 keys left: `)
		assert.Contains(t, err.Error(), `k6, k7, k8, k9, k10, k11, k12, k13, k14, k15, ...`)

		outcomes := map[controller.Outcome]int{}
		for _, r := range reports.Take() {
			outcomes[r.Outcome]++
			if r.Outcome == controller.Canceled {
				require.ErrorIs(t, r.Err, controller.ErrDrainTimeout)
			}
		}
		assert.Equal(t, map[controller.Outcome]int{controller.Succeeded: 4, controller.Canceled: 2}, outcomes)
		c.CheckInvariants(t)

		looptest.Start(t, c.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{
			"k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19",
		}, keysOf(reports.Take()))
	})
}

func TestDrainTimeoutWithNothingLeftIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Minute) // ignores its context
			return controller.Result{}, nil
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop())
		assert.Equal(t, time.Minute, time.Since(began), "Run waits for a Reconcile that ignores its context")
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome)
	})
}

func TestReconcileContextKeepsValuesOfRunAndOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		entered := make(chan context.Context, 1)
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			entered <- ctx
			<-leave
			return controller.Result{}, nil
		})
		r := looptest.StartIn(context.WithValue(t.Context(), valueKey{}, 7), t, c.Run)
		c.Add("a")
		ctx := <-entered
		assert.Equal(t, 7, ctx.Value(valueKey{}))
		r.Cancel()
		synctest.Wait()
		require.NoError(t, ctx.Err())
		close(leave)
		require.NoError(t, r.Stop())
		require.Error(t, ctx.Err(), "work left behind by Reconcile is stopped")
	})
}

func TestKeyTakenDuringStopIsPutBack(t *testing.T) {
	c, reports := newController(t, controller.Config[string]{}, noop)
	c.Add("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Work(&endsLate{Context: t.Context(), looks: 2}, ctx) // after the key was taken
	assert.Empty(t, reports.Take())
	c.CheckInvariants(t)
	assert.Equal(t, workqueue.Stats{Ready: 1}, c.Stats().Queue)
}

// endsLate is a context that ends after a number of checks.
type endsLate struct {
	context.Context
	looks int
}

func (c *endsLate) Err() error {
	if c.looks--; c.looks >= 0 {
		return nil
	}
	return context.Canceled
}

func TestBlockedMapperDoesNotDelayStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		inf := newInformer("things", s)
		looptest.Start(t, inf.Run)
		var ended time.Time
		c, _ := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(ctx context.Context, _ string) (controller.Result, error) {
			<-ctx.Done()
			ended = time.Now()
			return controller.Result{}, ctx.Err()
		}, controller.Watches(inf, pure(func(object) []string {
			time.Sleep(time.Minute)
			return nil
		})))
		r := looptest.Start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		s.set(object{Key: "x"})
		synctest.Wait()
		began := time.Now()
		require.ErrorContains(t, r.Stop(), "1 keys left: a")
		assert.Equal(t, time.Second, ended.Sub(began))
		assert.Equal(t, time.Minute, time.Since(began), "Run waits for the mapper")
	})
}

// large is a key, its first number, that takes long to copy: so a stop has the time to come between the steps of an Add.
type large [64]int

func TestNoKeyAddedDuringStopIsLost(t *testing.T) {
	const runs = 20
	synctest.Test(t, func(t *testing.T) {
		var seen sync.Map
		began := make(chan struct{}, 1)
		c, err := controller.New("test", func(_ context.Context, key large) (controller.Result, error) {
			if key[0] == 0 {
				began <- struct{}{}
			}
			seen.Store(key[0], true)
			return controller.Result{}, nil
		}, controller.Config[large]{Logger: quiet})
		require.NoError(t, err)
		n := 0
		for range runs {
			r := looptest.Start(t, c.Run)
			c.Add(large{})
			<-began
			r.Cancel()
			for !r.Ended() { // one goroutine adds, while another stops
				n++
				c.Add(large{n})
				runtime.Gosched()
			}
			require.NoError(t, r.Stop())
		}
		looptest.Start(t, c.Run)
		synctest.Wait()
		for i := range n {
			_, ok := seen.Load(i)
			require.True(t, ok, "key %d of %d", i, n)
		}
	})
}

func TestDrainErrorOmitsKeysInBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{DrainTimeout: time.Second, Queue: workqueue.Config[string]{RateLimiter: &limiter{delay: time.Hour}}}
		c, _ := newController(t, cfg, func(ctx context.Context, key string) (controller.Result, error) {
			if key == "slow" {
				<-ctx.Done()
			}
			return controller.Result{}, errBoom
		})
		r := looptest.Start(t, c.Run)
		c.Add("failed")
		c.Add("slow")
		synctest.Wait()
		require.ErrorContains(t, r.Stop(), "1 keys left: slow")
		assert.Equal(t, 2, c.Stats().Queue.Ready)
	})
}

func TestImmediateRetriesDoNotPreventDrain(t *testing.T) {
	for name, f := range map[string]func(context.Context, string) (controller.Result, error){
		"a failure without a delay": func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, errBoom
		},
		"the shortest delay": func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Second - 1)
			return controller.Result{RequeueAfter: 1}, nil
		},
	} {
		bubble(t, name, func(t *testing.T) {
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: &limiter{}}}, f)
			r := looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(4500 * time.Millisecond)
			assert.Len(t, reports.Take(), 4, "it is repeated until the stop")
			require.NoError(t, r.Stop())
			assert.Len(t, reports.Take(), 1)
			assert.Equal(t, 1, c.Stats().Queue.Ready, "it is left to the next run")
			c.CheckInvariants(t)
		})
	}
}

func TestAddPanicsOnKeyUnequalToItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := controller.New("test", func(context.Context, float64) (controller.Result, error) {
			time.Sleep(time.Second)
			return controller.Result{}, nil
		}, controller.Config[float64]{Logger: quiet})
		require.NoError(t, err)
		check := func() {
			assert.Panics(t, func() { c.Add(math.NaN()) })
			assert.Panics(t, func() { c.PauseKey(math.NaN()) })
			assert.Panics(t, func() { _ = c.WaitReconciled(t.Context(), math.NaN()) })
			c.CheckInvariants(t)
		}
		check()
		r := looptest.Start(t, c.Run)
		c.Add(1)
		synctest.Wait()
		r.Cancel()
		synctest.Wait()
		check() // while it drains
		require.NoError(t, r.Stop())
		check()
	})
}
