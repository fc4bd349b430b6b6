package leaderelect_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/fence"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// A leader crashes. Its session ends, so another elector takes over at once, although the lease has 15 seconds left. A late
// write of the first leader is refused.
func ExampleSessions() {
	leases := memlease.New()
	var sessions leaderelect.Sessions = leases
	var orders fence.Register[string] // refuses terms that are over

	run := func(ctx context.Context, name string, work func(context.Context, *leaderelect.Leadership) error) error {
		e, err := leaderelect.New(leaderelect.Config{
			Store: leases, Key: "shop-controller", Identity: name,
			Sessions:         sessions,
			Fenced:           true, // all that the work writes carries the term
			OnStartedLeading: work,
		})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}

	ctx, kill := context.WithCancel(context.Background())
	err := run(ctx, "a", func(context.Context, *leaderelect.Leadership) error {
		kill()
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	err = run(ctx, "b", func(_ context.Context, l *leaderelect.Leadership) error {
		fmt.Println("b leads in term", l.Term())
		fmt.Println("b writes:", orders.Write(l.Term(), "from b"))
		fmt.Println("a writes:", orders.Write(1, "from a"))
		stop()
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// b leads in term 2
	// b writes: <nil>
	// a writes: fence: term 1 after term 2: term is stale
}
