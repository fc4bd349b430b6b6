package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
)

// A controller makes the world equal to what is desired, one key at a time.
func Example() {
	desired := map[string]int{"web": 3, "db": 1}
	running := map[string]int{"old": 2}

	reconcile := controller.Func[string](func(_ context.Context, app string) (controller.Result, error) {
		if running[app] != desired[app] {
			fmt.Printf("%s: from %d to %d\n", app, running[app], desired[app])
			running[app] = desired[app]
		}
		return controller.Result{}, nil
	})
	c, err := controller.New("apps", reconcile, controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range []string{"web", "db", "old", "web"} {
		c.Add(app)
	}

	// A program calls c.Run(ctx) or hands c to a Manager. ProcessNext does it step by step.
	for {
		if _, ok := c.ProcessNext(context.Background()); !ok {
			break
		}
	}
	// Output:
	// web: from 0 to 3
	// db: from 0 to 1
	// old: from 2 to 0
}

// certificates is a Reconciler that is a type of its own.
type certificates struct{}

func (*certificates) Reconcile(_ context.Context, host string) (controller.Result, error) {
	switch host {
	case "no such host":
		return controller.Result{}, controller.Terminal(errors.New("there is no DNS record"))
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
	c, err := controller.New[string]("certificates", &certificates{}, controller.Config[string]{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, host := range []string{"good.example", "no such host", "busy.example", "bug.example"} {
		c.Add(host)
		report, _ := c.ProcessNext(context.Background())
		fmt.Printf("%s: %v, again after %v\n", report.Key, report.Outcome, report.Retry)
	}
	fmt.Println("failed:", c.Stats().Outcomes[controller.Failed])
	// Output:
	// good.example: Requeued, again after 720h0m0s
	// no such host: GivenUp, again after 0s
	// busy.example: Failed, again after 5ms
	// bug.example: Panicked, again after 5ms
	// failed: 1
}

// Hooks observe every reconcile, for metrics and traces.
func ExampleHooks() {
	c, err := controller.New("jobs", controller.Func[int](func(ctx context.Context, job int) (controller.Result, error) {
		if controller.Attempt(ctx) == 1 {
			return controller.Result{}, tooMany{time.Microsecond}
		}
		return controller.Result{}, nil
	}), controller.Config[int]{
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
	c.ProcessNext(context.Background())
	c.Add(7) // an event comes before the retry
	c.ProcessNext(context.Background())
	// Output:
	// job 7, attempt 1: Deferred
	// job 7, attempt 2: Succeeded
}

// tooMany is an error that says when to try again.
type tooMany struct{ wait time.Duration }

func (e tooMany) Error() string             { return "too many requests" }
func (e tooMany) RetryAfter() time.Duration { return e.wait }
