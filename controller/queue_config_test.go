package controller_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
)

func TestBurstOfEventsIsOneReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Debounce: time.Second}}
		c, reports := newController(t, cfg, noop)
		r := looptest.Start(t, c.Run)
		for range 5 {
			c.Add("a")
			time.Sleep(time.Second - 1)
			synctest.Wait()
		}
		assert.Empty(t, reports.Take())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1)

		c.Add("a")
		require.NoError(t, r.Stop(), "a debounced key is not ready")
		looptest.Start(t, c.Run)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, reports.Take(), 1, "and is left to the next run")
	})
}

func TestKeyPutBackIsNotDebounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{Debounce: time.Hour}, DrainTimeout: time.Second}
		stuck := true
		c, reports := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			if stuck {
				<-ctx.Done()
			}
			return controller.Result{}, ctx.Err()
		})
		r := looptest.Start(t, c.Run)
		c.Add("a")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), controller.ErrDrainTimeout)
		assert.Equal(t, controller.Canceled, reports.Take()[0].Outcome)
		stuck = false
		looptest.Start(t, c.Run)
		synctest.Wait()
		assert.Equal(t, controller.Succeeded, reports.Take()[0].Outcome, "at once, by the next run")
	})
}

func TestGroupLimitLeavesWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		cfg := controller.Config[string]{Workers: 8, Queue: workqueue.Config[string]{
			Group: func(key string) string { tenant, _, _ := strings.Cut(key, "/"); return tenant }, GroupLimit: 2,
		}}
		c, reports := newController(t, cfg, func(_ context.Context, key string) (controller.Result, error) {
			if strings.HasPrefix(key, "big/") {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
			}
			time.Sleep(time.Second)
			return controller.Result{}, nil
		})
		looptest.Start(t, c.Run)
		for i := range 20 {
			c.Add("big/" + string(rune('a'+i)))
		}
		c.Add("small/a")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Contains(t, keysOf(reports.All()), "small/a")
		time.Sleep(time.Minute)
		assert.Len(t, reports.Take(), 21)
		assert.EqualValues(t, 2, most.Load())
	})
}
