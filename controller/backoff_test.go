package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/workqueue"
)

// A failure with its own delay counts toward the next backoff, with the default limiter and with a configured one.
func TestBackoffCountsAllFailuresOfKey(t *testing.T) {
	for name, limiter := range map[string]workqueue.RateLimiter[string]{
		"nil": nil, "explicit": workqueue.DefaultControllerRateLimiter[string](),
	} {
		bubble(t, name, func(t *testing.T) {
			c, reports := newController(t, controller.Config[string]{Queue: workqueue.Config[string]{RateLimiter: limiter}},
				func(ctx context.Context, _ string) (controller.Result, error) {
					if info, _ := controller.FromContext(ctx); info.Attempt < 4 {
						return controller.Result{}, delayed{time.Hour}
					}
					return controller.Result{}, errBoom
				})
			looptest.Start(t, c.Run)
			c.Add("a")
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			all := reports.Take()
			assert.Len(t, all, 4)
			assert.Equal(t, 40*time.Millisecond, all[3].Retry)
		})
	}
}
