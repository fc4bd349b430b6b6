package controller_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/retry/gate"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Two controllers with the same keys call one API, three times for each key.
func TestControllersSharingLimiterMakeProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := gate.NewLimiter(10, 3)
		var mu sync.Mutex
		var calls []time.Duration // guarded by mu
		began := time.Now()
		call := func(context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, time.Since(began))
			return nil
		}
		reconcile := func(ctx context.Context, _ string) (controller.Result, error) {
			for range 3 {
				if err := limit.Do(ctx, call); err != nil {
					return controller.Result{}, fmt.Errorf("call the API: %w", err)
				}
			}
			return controller.Result{}, nil
		}
		const keys = 30
		for range 2 {
			cfg := controller.Config[string]{Workers: 3, Queue: workqueue.Config[string]{MaxAttempts: 1}, Timeout: time.Millisecond}
			c, reports := newController(t, cfg, reconcile)
			r := looptest.Start(t, c.Run)
			for i := range keys {
				c.Add(fmt.Sprint(i))
			}
			t.Cleanup(func() {
				require.NoError(t, r.Stop())
				stats := c.Stats()
				assert.EqualValues(t, keys, stats.Outcomes[controller.Succeeded])
				assert.EqualValues(t, len(reports.Take()), stats.Outcomes[controller.Succeeded]+stats.Outcomes[controller.Unfinished], "none failed")
				assert.Empty(t, c.Snapshot())
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for i := range calls {
			for j := i; j < len(calls); j++ {
				require.LessOrEqual(t, float64(j-i+1), 3+10*(calls[j]-calls[i]).Seconds()+1e-6)
			}
		}
		assert.Less(t, len(calls), 2*2*3*keys, "few calls are repeated")
		assert.Less(t, calls[len(calls)-1], 40*time.Second, "and little time is lost")
	})
}

// GaveUp belongs to the attempt whose error it receives. For a limiter, its calls follow those of the reconcile.
func TestGaveUpCallsPassTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := gate.NewLimiter(1, 3)
		call := func(context.Context) error { return nil }
		cfg := controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1, RateLimiter: &limiter{delay: time.Millisecond}}}
		cfg.GaveUp = func(ctx context.Context, _ string, _ error) error { return limit.Do(ctx, call) }
		c, _ := newController(t, cfg, func(ctx context.Context, _ string) (controller.Result, error) {
			for range 2 {
				if err := limit.Do(ctx, call); err != nil {
					return controller.Result{}, err
				}
			}
			return controller.Result{}, errBoom
		})
		looptest.Start(t, c.Run)
		for i := range 10 {
			c.Add(fmt.Sprint(i))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, c.Parked(), 10)
		assert.Less(t, c.Stats().Outcomes[controller.Failed], uint64(30), "GaveUp sets its retry delay")
	})
}
