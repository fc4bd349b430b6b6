package controller_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestLostLeadershipStopsWorkWithoutDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type valueKey struct{}
		store := newLeases()
		var terms []uint64
		var began atomic.Int64
		c, reports := newController(t, controller.Config[string]{Workers: 2}, func(ctx context.Context, _ string) (controller.Result, error) {
			began.Add(1)
			assert.Equal(t, "value", ctx.Value(valueKey{}))
			l, _ := leaderelect.FromContext(ctx)
			if mine, ok := leaderelect.FromContext(ctx); ok && l.Term() == 1 {
				<-ctx.Done()
				assert.Equal(t, uint64(1), mine.Term())
				assert.ErrorIs(t, context.Cause(ctx), leaderelect.ErrLeaseExpired)
				assert.False(t, time.Now().After(l.Deadline()), "at the time of the loss, not later")
				return controller.Result{}, nil // even a success does not lead to the next key
			}
			return controller.Result{}, nil
		})
		for i := range 10 {
			c.Add(fmt.Sprint("k", i))
		}
		lead(t, store, func(ctx context.Context) error {
			mine, _ := leaderelect.FromContext(ctx)
			terms = append(terms, mine.Term())
			return c.Run(context.WithValue(ctx, valueKey{}, "value"))
		})
		time.Sleep(time.Second)
		synctest.Wait()
		cut(store, true)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 2, began.Load(), "no reconcile began after the loss")
		assert.False(t, c.Stats().Running)
		assert.Equal(t, 8, c.Stats().Queue.Ready, "the others wait")
		reports.Take()

		cut(store, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []uint64{1, 2}, terms)
		assert.Len(t, reports.Take(), 8, "the next term does them")
	})
}

func TestLeadershipLossDuringDrainStopsIt(t *testing.T) {
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
			r.Cancel()
			synctest.Wait()
			cut(store, lose)
			r.Stop()
			require.NoError(t, err)
			if lose {
				reported := reports.Take()
				assert.Less(t, len(reported), 4)
				assert.Equal(t, controller.Canceled, reported[len(reported)-1].Outcome)
				assert.Equal(t, 4-len(reported)+1, c.Stats().Queue.Ready)
			} else {
				assert.Len(t, reports.Take(), 4)
			}
		})
	}
}

func TestEndedDrainOfElectionNamesRemainingKeys(t *testing.T) {
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
		r := looptest.Start(t, elector.Run)
		synctest.Wait()
		r.Stop()
		require.ErrorIs(t, err, leaderelect.ErrDrainTimeout)
		assert.Contains(t, err.Error(), "3 keys left: k2, k3, k1")
	})
}

func TestRunEndsWithLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		ran := make(chan error, 1)
		c, _ := newController(t, controller.Config[string]{}, noop)
		lead(t, store, func(ctx context.Context) error {
			err := c.Run(context.WithoutCancel(ctx))
			ran <- err
			return err
		})
		synctest.Wait()
		cut(store, true)
		require.NoError(t, <-ran)
	})
}
