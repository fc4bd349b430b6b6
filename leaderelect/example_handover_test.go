package leaderelect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// A leader hands over to another one, for example for an upgrade, and continues as a follower.
func ExampleElector_HandOver() {
	ctx, cancel := context.WithCancel(context.Background())
	store, leading := memlease.New(), make(chan string)
	run := func(name string) (*leaderelect.Elector, <-chan error) {
		e, err := leaderelect.New(leaderelect.Config{
			Store: store, Key: "shop", Identity: name, ReleaseOnCancel: true, Logger: slog.New(slog.DiscardHandler),
			OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
				leading <- name
				<-ctx.Done() // here the work drains
				fmt.Println(name, "has resigned:", errors.Is(context.Cause(ctx), leaderelect.ErrResigned))
				return nil
			},
		})
		if err != nil {
			panic(err)
		}
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }() // ends with ctx; waited for below
		return e, done
	}
	ann, annDone := run("ann")
	fmt.Println(<-leading, "leads")
	_, bobDone := run("bob")
	fmt.Println(ann.HandOver(ctx, "bob"))
	fmt.Println(<-leading, "leads")
	cancel()
	fmt.Println(<-annDone, <-bobDone)
	// Output:
	// ann leads
	// ann has resigned: true
	// <nil>
	// bob leads
	// bob has resigned: false
	// <nil> <nil>
}
