package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/workqueue"
)

// The context of a reconcile knows the attempt and why it is made, and so does the logger that is made from it.
func ExampleFromContext() {
	base := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "first_failure" || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}}))
	deploy := func(ctx context.Context, site string) (controller.Result, error) {
		info, _ := controller.FromContext(ctx)
		controller.Logger(ctx).Info("deploying", "escalate", info.Attempt > 1)
		if info.Attempt == 1 {
			return controller.Result{}, errors.New("no route")
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("sites", deploy, controller.Config[string]{Logger: base})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.AddWith("ulm", controller.AddOptions{Reason: "asked for by hand"})
	c.Step(context.Background(), "ulm")
	c.Add("ulm") // an event comes before the retry
	c.Step(context.Background(), "ulm")
	// Output:
	// level=INFO msg=deploying controller=sites key=ulm attempt=1 reconcile=1 reasons="[asked for by hand]" escalate=false
	// level=WARN msg="reconcile failed" controller=sites key=ulm attempt=1 reconcile=1 reasons="[asked for by hand]" error="no route" retry=5ms
	// level=INFO msg=deploying controller=sites key=ulm attempt=2 reconcile=2 reasons="[asked for by hand no route]" escalate=true
}

// A key that fails too often is parked, until an operator retries it or an event arrives for it.
func ExampleController_Parked() {
	broken := true
	c, err := controller.New("certificates", func(context.Context, string) (controller.Result, error) {
		if broken {
			return controller.Result{}, errors.New("no such zone")
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Queue: workqueue.Config[string]{MaxAttempts: 1}, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add("shop.example")
	c.Step(context.Background(), "shop.example")
	for k := range c.Inspect().Keys() {
		fmt.Println(k.State, k.Key, "after", k.Failures, "failure:", k.Reasons[0].Text)
	}

	broken = false
	for _, key := range c.Parked() {
		c.Add(key)
	}
	report, _ := c.Step(context.Background(), "shop.example")
	fmt.Println(report.Outcome, "at attempt", report.Attempt)
	// Output:
	// Parked shop.example after 1 failure: no such zone
	// Succeeded at attempt 1
}
