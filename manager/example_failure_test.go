package manager_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

// A part that fails stops everything, unless the manager is told otherwise: here it is started again, and given up after
// three tries in a row.
func ExampleBackoff() {
	m, err := manager.New(manager.Config{
		Restart: manager.Backoff(wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 3}),
		Logger:  quiet,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tries := 0
	m.Add(manager.Func("webhook", func(context.Context) error {
		tries++
		panic(fmt.Sprint("no route to host, try ", tries))
	}))
	fmt.Println(m.Run(context.Background()))
	// Output:
	// manager: run part "webhook": panic: no route to host, try 3
}

// A function decides what becomes of each failure.
func ExampleFailure() {
	ctx, cancel := context.WithCancel(context.Background())
	alone := make(chan bool)
	metrics := manager.Func("metrics", func(context.Context) error { return errors.New("the port is in use") })
	tries := 0
	sites := manager.Func("sites", func(ctx context.Context) error {
		<-alone
		if tries++; tries == 1 {
			return nil // although its context has not ended
		}
		cancel()
		<-ctx.Done()
		return nil
	})
	var m *manager.Manager
	m, err := manager.New(manager.Config{
		Restart: func(f manager.Failure) (time.Duration, bool) {
			fmt.Printf("%s %q: %v\n", f.Kind, f.Name, f.Err)
			if f.Name == "metrics" { // nice to have: continue without it
				_ = m.Remove(ended(), f.Name)
				close(alone)
				return 0, true
			}
			return time.Millisecond, f.InARow < 5
		},
		Logger: quiet,
	}, manager.At(manager.Always, metrics), sites)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Run(ctx))
	// Output:
	// part "metrics": the port is in use
	// part "sites": ended by itself
	// <nil>
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
