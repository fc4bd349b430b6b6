package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/wait"
)

// runner is a controller that is a function.
type runner struct {
	name string
	run  func(ctx context.Context) error
}

func (r runner) Name() string                  { return r.name }
func (r runner) Run(ctx context.Context) error { return r.run(ctx) }

// A part that fails stops everything, unless the manager is told otherwise: here it is started again, and given up after
// three tries in a row.
func ExampleRestartWithBackoff() {
	m, err := controller.NewManager(controller.ManagerConfig{
		OnFailure: controller.RestartWithBackoff(wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 3}),
		Logger:    quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tries := 0
	m.AddController(runner{"webhook", func(context.Context) error {
		tries++
		panic(fmt.Sprint("no route to host, try ", tries))
	}})
	fmt.Println(m.Run(context.Background()))
	// Output:
	// controller: manage controller "webhook": wait: recover from panic: no route to host, try 3
}

// A function decides what becomes of each failure.
func ExampleReaction() {
	onFailure := func(f controller.PartFailure) controller.Reaction {
		switch {
		case f.Name == "metrics":
			return controller.GoOnWithout() // nice to have
		case f.Kind == controller.PartController && f.InARow < 5:
			return controller.RestartAfter(time.Millisecond)
		default:
			return controller.StopAll()
		}
	}
	m, err := controller.NewManager(controller.ManagerConfig{
		OnFailure: func(f controller.PartFailure) controller.Reaction {
			reaction := onFailure(f)
			fmt.Printf("%s %q: %v: %v\n", f.Kind, f.Name, f.Err, reaction)
			return reaction
		},
		Logger: quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	alone := make(chan bool)
	m.AddToEveryReplica(runner{"metrics", func(context.Context) error {
		defer close(alone)
		return errors.New("the port is in use")
	}})
	tries := 0
	m.AddController(runner{"sites", func(ctx context.Context) error {
		<-alone
		if tries++; tries == 1 {
			return nil // although nobody has told it to
		}
		cancel()
		<-ctx.Done()
		return nil
	}})
	fmt.Println(m.Run(ctx))
	// Unordered output:
	// controller "metrics": the port is in use: go on without it
	// controller "sites": controller: ended by itself: restart after 1ms
	// <nil>
}
