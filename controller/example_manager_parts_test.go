package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
)

// Controllers and sources are added and removed while the manager runs: here, those of one tenant.
func ExampleManager_RemoveController() {
	m, err := controller.NewManager(controller.ManagerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()

	siteKey := func(s site) string { return s.Name }
	source, err := informer.Poll(list(site{"north"}), siteKey, informer.PollConfig[site]{})
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
	c, err := controller.New("acme", controller.Func[string](func(_ context.Context, name string) (controller.Result, error) {
		reconciled <- name
		return controller.Result{}, nil
	}), controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	controller.WatchKeys(c, sites)

	fmt.Println(m.AddSource(sites), m.AddController(c)) // starts at once, when the source has synced
	fmt.Println("reconciled", <-reconciled)
	show(m.Stats())

	fmt.Println(m.RemoveController(ctx, "acme")) // returns when it is drained
	fmt.Println(m.RemoveSource(ctx, "sites of acme"))
	show(m.Stats())
	fmt.Println(m.RemoveController(ctx, "acme"))

	cancel()
	fmt.Println(<-ended)
	show(m.Stats())
	// Output:
	// <nil> <nil>
	// reconciled north
	// leading, running [sites of acme acme], waiting []
	// <nil>
	// <nil>
	// leading, running [], waiting []
	// controller: remove controller "acme": controller: there is none of this name
	// <nil>
	// ended, running [], waiting []
}

// show prints what a manager does.
func show(s controller.ManagerStats) {
	fmt.Printf("%s, running %v, waiting %v\n", s.Stage, names(s.Parts, controller.PartRunning), names(s.Parts, controller.PartWaiting))
}

// names returns the names of the parts that are in a state.
func names(parts []controller.PartStats, state controller.PartState) (names []string) {
	for _, p := range parts {
		if p.State == state {
			names = append(names, p.Name)
		}
	}
	return names
}
