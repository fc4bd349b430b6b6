package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
)

// A controller makes the world match the desired state, one key at a time.
func Example() {
	desired := map[string]int{"web": 3, "db": 1}
	running := map[string]int{"old": 2}

	reconcile := func(_ context.Context, app string) (controller.Result, error) {
		if running[app] != desired[app] {
			fmt.Printf("%s: from %d to %d\n", app, running[app], desired[app])
			running[app] = desired[app]
		}
		return controller.Result{}, nil
	}
	c, err := controller.New("apps", reconcile, controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range []string{"web", "db", "old", "web"} {
		c.Add(app)
	}

	// A program calls c.Run(ctx) or hands c to a manager. Step does it key by key.
	for _, app := range c.Ready() {
		c.Step(context.Background(), app)
	}
	// Output:
	// web: from 0 to 3
	// db: from 0 to 1
	// old: from 2 to 0
}

// renew ends in each of several ways.
func renew(_ context.Context, host string) (controller.Result, error) {
	switch host {
	case "no such host":
		return controller.Result{}, retry.Permanent(errors.New("there is no DNS record"))
	case "new.example":
		return controller.Result{}, retry.NotYet(errors.New("the authority looks at it"), time.Minute)
	case "busy.example":
		return controller.Result{}, errors.New("the authority is busy")
	case "bug.example":
		var names []string
		return controller.Result{}, errors.New(names[0])
	default:
		return controller.Result{RequeueAfter: 30 * 24 * time.Hour}, nil // renew it then
	}
}

// Each way in which a Reconcile can end is one outcome.
func ExampleOutcome() {
	c, err := controller.New("certificates", renew, controller.Config[string]{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"good.example", "new.example", "no such host", "busy.example", "bug.example"} {
		c.Add(host)
		report, _ := c.Step(context.Background(), host)
		fmt.Printf("%s: %v, again after %v\n", report.Key, report.Outcome, report.Retry)
	}
	fmt.Println("failed:", c.Stats().Outcomes[controller.Failed])
	// Output:
	// good.example: Succeeded, again after 720h0m0s
	// new.example: Unfinished, again after 1m0s
	// no such host: Parked, again after 0s
	// busy.example: Failed, again after 5ms
	// bug.example: Panicked, again after 5ms
	// failed: 1
}

// Hooks observe every reconcile, for metrics and traces.
func ExampleHooks() {
	c, err := controller.New("jobs", func(ctx context.Context, job int) (controller.Result, error) {
		if info, _ := controller.FromContext(ctx); info.Attempt == 1 {
			return controller.Result{}, tooMany{time.Microsecond}
		}
		return controller.Result{}, nil
	}, controller.Config[int]{
		Logger: quiet,
		Hooks: controller.Hooks[int]{
			Reconciled: func(r controller.Report[int]) {
				fmt.Printf("job %d, attempt %d: %v\n", r.Key, r.Attempt, r.Outcome)
			},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Add(7)
	c.Step(context.Background(), 7)
	c.Add(7) // an event comes before the retry
	c.Step(context.Background(), 7)
	// Output:
	// job 7, attempt 1: Failed
	// job 7, attempt 2: Succeeded
}

// tooMany is an error that says when to try again.
type tooMany struct{ wait time.Duration }

func (e tooMany) Error() string             { return "too many requests" }
func (e tooMany) RetryAfter() time.Duration { return e.wait }
