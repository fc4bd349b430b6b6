package manager_test

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

// A part that fails stops everything, unless Config.Restart is set: here it runs again, and is given up after three tries in a row.
func ExampleConfig_restart() {
	m, err := manager.New(manager.Config{
		Restart: wait.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 3},
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

// A part that is nice to have removes itself when it fails, and the others continue.
func ExampleManager_Remove_itself() {
	ctx, cancel := context.WithCancel(context.Background())
	alone := make(chan bool)
	m, err := manager.New(manager.Config{Logger: quiet}, manager.Func("sites", func(ctx context.Context) error {
		<-alone
		fmt.Println("sites continues")
		cancel()
		<-ctx.Done()
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	m.Add(manager.At(manager.Always, manager.Func("metrics", func(context.Context) error {
		fmt.Println("metrics: the port is in use")
		_ = m.Remove(ended(), "metrics")
		close(alone)
		return nil
	})))
	fmt.Println(m.Run(ctx))
	// Output:
	// metrics: the port is in use
	// sites continues
	// <nil>
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
