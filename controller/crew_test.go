package controller_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		c, reports := newController(t, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
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
