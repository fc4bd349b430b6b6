//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package machine_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/setpoint-go/setpoint/examples/webapp/machine"
)

// A replica is started, probed and stopped. What there is is asked of the machine each time, never remembered.
func ExampleMachine() {
	dir, err := os.MkdirTemp("", "replicas")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	changed := make(chan struct{}, 1)
	m, err := machine.Open(dir, machine.Config{
		Logger: slog.New(slog.DiscardHandler),
		Changed: func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- m.Run(ctx) }()
	// is lists after each change until the replica is in that state, 0 for gone.
	is := func(state machine.State) machine.Replica {
		for ; ; <-changed {
			replicas, err := m.List(ctx)
			if err != nil {
				panic(err)
			}
			switch {
			case len(replicas) == 0 && state == 0:
				return machine.Replica{}
			case len(replicas) == 1 && replicas[0].State == state:
				return replicas[0]
			}
		}
	}

	fmt.Println(m.Start(ctx, machine.Spec{ID: "blue-1", App: "blue", Message: "hello"}))
	r := is(machine.Running)
	fmt.Println(r.ID, r.App, r.State)
	err = m.Probe(ctx, r)
	m.ReportHealth(r.ID, err)
	fmt.Println(is(machine.Ready).State, err)
	fmt.Println(m.Stop(ctx, r.ID))
	is(0)
	cancel()
	fmt.Println(<-ran)
	// Output:
	// <nil>
	// blue-1 blue Running
	// Ready <nil>
	// <nil>
	// <nil>
}
