package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that was suspended resumes after its deadline, and the timer that ends its leadership has not run yet. These
// tests get there in two ways: a goroutine that wakes at the deadline races with that timer, which is why they repeat; and
// code that a worker calls before a reconcile returns after the deadline.

// resumptions is how often a process resumes at its deadline. In about half of them the worker is ahead of the timer.
const resumptions = 60

// untilDeadline returns at the deadline of l, perhaps before the timer has run that ends l.
func untilDeadline(l *leaderelect.Leadership) { time.Sleep(time.Until(l.Deadline())) }

// leads fails the test unless the leadership of ctx lasts, by the clock.
func leads(ctx context.Context, t *testing.T, why string) {
	l, ok := leaderelect.FromContext(ctx)
	assert.True(t, ok && time.Until(l.Deadline()) > 0, why)
}

func TestNoReconcileStartsAfterDeadlineOfSuspendedLeader(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				leads(ctx, t, key+" begins after the deadline")
				if key == "first" {
					l, _ := leaderelect.FromContext(ctx)
					untilDeadline(l)
				}
				return controller.Result{}, nil
			})
			lead(t, store, c.Run)
			synctest.Wait()
			cut(store, true)
			c.Add("first")
			synctest.Wait()
			for i := range 20 {
				c.Add(fmt.Sprint("k", i))
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			assert.False(t, c.Stats().Running)
			assert.Zero(t, c.Stats().Queue.InProcess)

			reports.Take()
			cut(store, false)
			time.Sleep(time.Minute)
			assert.Zero(t, c.Stats().Queue, "the next term does the rest")
		})
	}
}

func TestNoReconcileStartsIfLeadershipEndsAfterDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		var suspended atomic.Bool
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
			Dispatched: func(string, time.Duration) {
				if suspended.CompareAndSwap(false, true) {
					time.Sleep(time.Minute)
				}
			},
		}}}
		c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			leads(ctx, t, "it begins after the deadline")
			return controller.Result{}, nil
		})
		lead(t, store, c.Run)
		synctest.Wait()
		cut(store, true)
		c.Add("a")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		assert.Empty(t, reports.Take())
		cut(store, false)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a"}, keysOf(reports.Take()), "the next term does it")
	})
}

func TestStepOfSuspendedLeaderDoesNothing(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, _ := newController(t, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
				leads(ctx, t, "a step begins after the deadline")
				return controller.Result{}, nil
			})
			c.Add("a")
			lead(t, store, func(ctx context.Context) error {
				cut(store, true)
				l, _ := leaderelect.FromContext(ctx)
				untilDeadline(l)
				_, ok := next(ctx, c)
				assert.False(t, ok)
				return nil
			})
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.Equal(t, []string{"a"}, queued(c), "it waits for the next leader")
		})
	}
}

// queued returns the keys in the queue of c.
func queued(c *controller.Controller[string]) (keys []string) {
	for _, k := range c.Snapshot() {
		keys = append(keys, k.Key)
	}
	return keys
}

func TestErrorAfterDeadlineIsNoFailure(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}}, func(ctx context.Context, _ string) (controller.Result, error) {
				l, _ := leaderelect.FromContext(ctx)
				untilDeadline(l)
				return controller.Result{}, errBoom
			})
			c.Add("a")
			lead(t, store, c.Run)
			synctest.Wait()
			cut(store, true)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			all := reports.Take()
			require.Len(t, all, 1)
			assert.Equal(t, controller.Canceled, all[0].Outcome)
			require.ErrorIs(t, all[0].Err, leaderelect.ErrLeaseExpired)
			require.ErrorIs(t, all[0].Err, errBoom)
			assert.Empty(t, c.Parked())
			cut(store, false)
		})
	}
}

func TestNoReconcileStartsAfterSlotDeadline(t *testing.T) {
	for range resumptions {
		synctest.Test(t, func(t *testing.T) {
			store := newLeases()
			var c *controller.Controller[string]
			slots, err := shard.New(shard.Config{
				Lease: leaderelect.Config{Store: store, Key: "lock", Identity: "me", Logger: quiet}, Slots: 1,
				OnAcquired: func(context.Context, int) error {
					for _, key := range []string{"first", "b", "c", "d"} {
						c.Add(key)
					}
					return nil
				},
			})
			require.NoError(t, err)
			c, err = controller.New("test", func(ctx context.Context, key string) (controller.Result, error) {
				leads(ctx, t, key+" begins after the deadline")
				l, _ := leaderelect.FromContext(ctx)
				if key == "first" && l.Term() == 1 {
					untilDeadline(l)
					return controller.Result{}, errBoom
				}
				return controller.Result{}, nil
			}, controller.Config[string]{Logger: quiet, Queue: workqueue.Config[string]{MaxAttempts: 1}})
			require.NoError(t, err)
			c.Share(slots)
			looptest.Start(t, slots.Run)
			looptest.Start(t, c.Run)
			synctest.Wait()
			cut(store, true)
			time.Sleep(20 * time.Second)
			synctest.Wait()
			assert.EqualValues(t, 1, c.Stats().Outcomes[controller.Canceled], "the error came too late")
			cut(store, false)
			time.Sleep(time.Minute)
			assert.Zero(t, c.Stats().Queue)
			assert.EqualValues(t, 4, c.Stats().Outcomes[controller.Succeeded])
		})
	}
}
