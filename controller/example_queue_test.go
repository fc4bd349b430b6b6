package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/workqueue"
)

// All of the queue can be configured, and observed: these are the metrics of client-go's dashboards.
func ExampleConfig_queue() {
	adds, retries, durations := 0, 0, 0
	c, err := controller.New("sites", func(ctx context.Context, site string) (controller.Result, error) {
		if info, _ := controller.FromContext(ctx); info.Attempt == 1 {
			return controller.Result{}, errors.New("no route")
		}
		return controller.Result{}, nil
	}, controller.Config[string]{
		Logger: quiet,
		Queue: workqueue.Config[string]{
			RateLimiter: workqueue.NewItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
			MaxAttempts: 10,
			Hooks: workqueue.Hooks[string]{
				Added:      func(string, int) { adds++ },
				Dispatched: func(_ string, _ int, waited time.Duration) { durations++ },
				Delayed:    func(string, time.Duration) { retries++ },
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add("ulm")
	c.Add("ulm") // one addition: it waits already
	c.Add("kiel")
	for _, site := range c.Ready() {
		report, _ := c.Step(context.Background(), site)
		fmt.Println(report.Key, report.Outcome, "again in", report.Retry)
	}
	stats := c.Stats().Queue
	fmt.Println("workqueue_adds_total", adds)
	fmt.Println("workqueue_retries_total", retries)
	fmt.Println("workqueue_queue_duration_seconds_count", durations)
	fmt.Println("workqueue_depth", stats.Ready+stats.Dirty)
	// Output:
	// ulm Failed again in 1m0s
	// kiel Failed again in 1m0s
	// workqueue_adds_total 2
	// workqueue_retries_total 2
	// workqueue_queue_duration_seconds_count 2
	// workqueue_depth 0
}
