package manager_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/manager"
)

// Parts are added and removed while the manager runs: here, those of one tenant.
func ExampleManager_Remove() {
	m, err := manager.New(manager.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

	siteKey := func(s site) string { return s.Name }
	source, err := poll.New(list(site{"north"}), siteKey, poll.Config[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(source, siteKey, informer.Config{Name: "sites of acme"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reconciled := make(chan string)
	c, err := controller.New("acme", func(_ context.Context, name string) (controller.Result, error) {
		reconciled <- name
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(sites))
	if err != nil {
		fmt.Println(err)
		return
	}

	fmt.Println(m.Add(c)) // and its informer; the controller starts when that has synced
	fmt.Println("reconciled", <-reconciled)
	show(m.Stats())

	fmt.Println(m.Remove(ctx, "acme")) // returns when it is drained, and its informer, which no other part has, has ended
	show(m.Stats())
	fmt.Println(m.Remove(ctx, "acme"))

	cancel()
	fmt.Println(<-ended)
	show(m.Stats())
	// Output:
	// <nil>
	// reconciled north
	// leading, running [sites of acme acme], waiting []
	// <nil>
	// leading, running [], waiting []
	// manager: remove "acme": no such part
	// <nil>
	// ended, running [], waiting []
}

// show prints what a manager does.
func show(s manager.Stats) {
	fmt.Printf("%s, running %v, waiting %v\n", s.State, names(s.Parts, "running"), names(s.Parts, "waiting"))
}

// names returns the names of the parts that are in a state.
func names(parts []manager.PartStats, state string) (names []string) {
	for _, p := range parts {
		if p.State == state {
			names = append(names, p.Name)
		}
	}
	return names
}
