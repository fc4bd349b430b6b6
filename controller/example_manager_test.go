package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// site and deployment are objects of two sources.
type (
	site       struct{ Name string }
	deployment struct{ ID, Site string }
)

// list is a source that never changes.
func list[T any](items ...T) func(context.Context) ([]T, error) {
	return func(context.Context) ([]T, error) { return items, nil }
}

// A manager fills the caches, waits for the lease, runs the controllers, and goes back in reverse order.
func ExampleManager() {
	siteKey := func(s site) string { return s.Name }
	deploymentKey := func(d deployment) string { return d.ID }
	siteSource, err := informer.Poll(list(site{"north"}), siteKey, informer.PollConfig[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(siteSource, siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	deploymentSource, err := informer.Poll(list(deployment{"d1", "north"}, deployment{"d2", "north"}), deploymentKey,
		informer.PollConfig[deployment]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	deployments, err := informer.New(deploymentSource, deploymentKey, informer.Config{Name: "deployments"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	c, err := controller.New("sites", controller.Func[string](func(ctx context.Context, name string) (controller.Result, error) {
		term, _ := leaderelect.Term(ctx)
		_, exists := sites.Get(name)
		fmt.Printf("%s: exists %v, deployments %d, term %d\n", name, exists, deployments.Indexer().Len(), term)
		cancel() // once is enough here
		return controller.Result{}, nil
	}), controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	controller.WatchKeys(c, sites)
	controller.Watch(c, deployments, func(_ string, d deployment) []string { return []string{d.Site} })

	m, err := controller.NewManager(controller.ManagerConfig{
		Election: &leaderelect.Config{Store: leaderelect.NewMemoryStore(), Key: "sites", Logger: quiet},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.AddSource(sites)
	m.AddSource(deployments)
	m.AddController(c)
	m.AddStopHook("goodbye", func(context.Context) error {
		fmt.Println("the last word of the leader")
		return nil
	})
	fmt.Println(m.Run(ctx)) // in a program: controller.RunUntilSignal(ctx, m.Run)
	// Output:
	// north: exists true, deployments 2, term 1
	// the last word of the leader
	// <nil>
}

// A handler of one's own decides which events matter.
func ExampleWatchHandler() {
	siteKey := func(s site) string { return s.Name }
	source, err := informer.Poll(list(site{"north"}, site{"test"}), siteKey, informer.PollConfig[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(source, siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	c, err := controller.New("sites", controller.Func[string](func(_ context.Context, name string) (controller.Result, error) {
		fmt.Println(name)
		cancel()
		return controller.Result{}, nil
	}), controller.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	controller.WatchHandler(c, sites, func(add func(string)) informer.Handler[string, site] {
		return informer.Handler[string, site]{
			Filter: func(s site) bool { return s.Name != "test" },
			OnAdd:  func(s site, _ bool) { add(s.Name) },
		}
	})
	m, err := controller.NewManager(controller.ManagerConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m.AddSource(sites)
	m.AddController(c)
	fmt.Println(m.Run(ctx))
	// Output:
	// north
	// <nil>
}

// The first interrupt stops in order, the second at once.
func ExampleRunUntilSignal() {
	err := controller.RunUntilSignal(context.Background(), func(ctx context.Context) error {
		fmt.Println("running")
		return nil // a program returns when ctx has ended
	})
	fmt.Println(err)
	// Output:
	// running
	// <nil>
}
