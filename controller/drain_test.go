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
	"github.com/setpoint-go/setpoint/leaderelect"
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

func TestAStopDrainsWhatIsQueuedDirtyAndInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		r := start(t, c.Run)
		c.Add("in flight and dirty")
		synctest.Wait()
		c.Add("in flight and dirty")
		c.Add("queued")
		began := time.Now()
		require.NoError(t, r.stop())
		assert.Equal(t, 3*time.Second, time.Since(began))
		reported := reports.take()
		assert.Equal(t, []string{"in flight and dirty", "queued", "in flight and dirty"}, keysOf(reported))
		for _, r := range reported {
			assert.Equal(t, controller.Succeeded, r.Outcome)
		}
		assert.Zero(t, c.Stats().Queue.Ready)
		c.CheckInvariants(t)
	})
}

func TestADrainDoesNotWaitForDelayedKeysAndTheNextRunDoesThemAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := time.Hour
		c, reports := newController(t, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: after}, nil
		})
		r := start(t, c.Run)
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.stop())
		assert.Zero(t, time.Since(began))
		assert.Len(t, reports.take(), 2)

		after = 0
		start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b"}, keysOf(reports.take()), "in the order in which they came")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, reports.take(), "the wake-up of the run before is gone")
		c.CheckInvariants(t)
	})
}

func TestWhatIsAddedWhileARunDrainsWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{}, slow)
		r := start(t, c.Run)
		c.Add("a")
		c.Add("b")
		synctest.Wait()
		r.cancel()
		synctest.Wait()
		c.Add("a")
		c.Add("late")
		assert.Equal(t, 1, c.Stats().Queue.InProcess, "of the draining queue")
		assert.Equal(t, 1, c.Stats().Queue.Ready, "of the draining queue")
		require.NoError(t, r.stop())
		assert.Equal(t, []string{"a", "b"}, keysOf(reports.take()))
		assert.Equal(t, 2, c.Stats().Queue.Ready, "of the next queue")

		start(t, c.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a", "late"}, keysOf(reports.take()))
	})
}

func TestADrainThatTakesTooLongNamesWhatIsLeftAndKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{Workers: 2, DrainTimeout: 2500 * time.Millisecond}, slow)
		r := start(t, c.Run)
		for i := range 20 {
			c.Add(fmt.Sprint("k", i))
		}
		synctest.Wait()
		began := time.Now()
		err := r.stop()
		assert.Equal(t, 2500*time.Millisecond, time.Since(began))
		require.ErrorIs(t, err, controller.ErrDrainTimeout)
		assert.Contains(t, err.Error(), `controller: run "test": controller: not drained in time: 2.5s have passed: 16 keys left: `)
		assert.Contains(t, err.Error(), `k6, k7, k8, k9, k10, k11, k12, k13, ...`)

		outcomes := map[controller.Outcome]int{}
		for _, r := range reports.take() {
			outcomes[r.Outcome]++
			if r.Outcome == controller.Canceled {
				require.ErrorIs(t, r.Err, controller.ErrDrainTimeout)
			}
		}
		assert.Equal(t, map[controller.Outcome]int{controller.Succeeded: 4, controller.Canceled: 2}, outcomes)
		c.CheckInvariants(t)

		start(t, c.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{
			"k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14", "k15", "k16", "k17", "k18", "k19",
		}, keysOf(reports.take()))
	})
}

func TestADrainTimeoutThatFindsEverythingDoneIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reports := newController(t, controller.Config[string]{DrainTimeout: time.Second}, func(context.Context, string) (controller.Result, error) {
			time.Sleep(time.Minute) // ignores its context
			return controller.Result{}, nil
		})
		r := start(t, c.Run)
		c.Add("a")
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.stop())
		assert.Equal(t, time.Minute, time.Since(began), "Run waits for a Reconcile that does not stop")
		assert.Equal(t, controller.Succeeded, reports.take()[0].Outcome)
	})
}

func TestTheContextOfAReconcileKeepsTheValuesOfRunAndOutlivesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		entered := make(chan context.Context, 1)
		leave := make(chan struct{})
		c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
			entered <- ctx
			<-leave
			return controller.Result{}, nil
		})
		r := startIn(t, context.WithValue(t.Context(), valueKey{}, 7), c.Run)
		c.Add("a")
		ctx := <-entered
		assert.Equal(t, 7, ctx.Value(valueKey{}))
		r.cancel()
		synctest.Wait()
		require.NoError(t, ctx.Err())
		close(leave)
		require.NoError(t, r.stop())
		require.Error(t, ctx.Err(), "what Reconcile has left behind is told to end")
	})
}

func TestALostLeadershipStopsTheWorkAtOnceAndDrainsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		var terms []uint64
		var began atomic.Int64
		c, reports := newController(t, controller.Config[string]{Workers: 2}, func(ctx context.Context, _ string) (controller.Result, error) {
			began.Add(1)
			l, _ := leaderelect.FromContext(ctx)
			if term, ok := leaderelect.Term(ctx); ok && l.Term() == 1 {
				<-ctx.Done()
				assert.Equal(t, uint64(1), term)
				assert.ErrorIs(t, context.Cause(ctx), leaderelect.ErrLeaseExpired)
				assert.False(t, time.Now().After(l.Deadline()), "at the moment of the loss, not later")
				return controller.Result{}, nil // even a success does not lead to the next key
			}
			return controller.Result{}, nil
		})
		for i := range 10 {
			c.Add(fmt.Sprint("k", i))
		}
		lead(t, store, func(ctx context.Context) error {
			term, _ := leaderelect.Term(ctx)
			terms = append(terms, term)
			return c.Run(ctx)
		})
		time.Sleep(time.Second)
		synctest.Wait()
		store.cut.Store(true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 2, began.Load(), "no reconcile began after the loss")
		assert.False(t, c.Stats().Running)
		assert.Equal(t, 8, c.Stats().Queue.Ready, "the others wait")
		reports.take()

		store.cut.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []uint64{1, 2}, terms)
		assert.Len(t, reports.take(), 8, "the next term does them")
	})
}

func TestACancelledLeaderDrainsAndALossDuringTheDrainStopsIt(t *testing.T) {
	for _, lose := range []bool{false, true} {
		bubble(t, fmt.Sprintf("lost: %v", lose), func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				for range 6 {
					if r, err := slow(ctx, key); err != nil {
						return r, err
					}
				}
				return controller.Result{}, nil
			})
			for i := range 4 {
				c.Add(fmt.Sprint("k", i))
			}
			var err error
			r := lead(t, store, func(ctx context.Context) error {
				err = c.Run(ctx)
				return err
			})
			time.Sleep(time.Second)
			r.cancel()
			synctest.Wait()
			store.cut.Store(lose)
			r.stop()
			require.NoError(t, err)
			if lose {
				reported := reports.take()
				assert.Less(t, len(reported), 4)
				assert.Equal(t, controller.Canceled, reported[len(reported)-1].Outcome)
				assert.Equal(t, 4-len(reported)+1, c.Stats().Queue.Ready)
			} else {
				assert.Len(t, reports.take(), 4)
			}
		})
	}
}

func TestAnElectionThatDoesNotWaitForTheDrainLeavesTheRestNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newController(t, controller.Config[string]{}, slow)
		for i := range 4 {
			c.Add(fmt.Sprint("k", i))
		}
		cfg := *election(newLeases())
		cfg.DrainTimeout = 1500 * time.Millisecond
		var err error
		cfg.OnStartedLeading = func(ctx context.Context, _ *leaderelect.Leadership) error {
			err = c.Run(ctx)
			return err
		}
		elector, newErr := leaderelect.New(cfg)
		require.NoError(t, newErr)
		r := start(t, elector.Run)
		synctest.Wait()
		r.stop()
		require.ErrorIs(t, err, leaderelect.ErrDrainTimeout)
		assert.Contains(t, err.Error(), "3 keys left: k1, k2, k3")
	})
}

func TestTheContextOfTheWorkEndsBeforeThatOfRunWhenTheLeadershipIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		r := lead(t, store, func(ctx context.Context) error {
			work, stop := controller.WorkContext(ctx)
			defer stop(nil)
			child, cancel := context.WithTimeout(work, time.Hour)
			defer cancel()
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			assert.NotContains(t, string(stacks), "propagateCancel", "no goroutine passes the end on")
			_, hasDeadline := work.Deadline()
			assert.False(t, hasDeadline)
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(child), leaderelect.ErrLeaseExpired)
			return nil
		})
		synctest.Wait()
		store.cut.Store(true)
		time.Sleep(15 * time.Second)
		r.stop()
	})
}
