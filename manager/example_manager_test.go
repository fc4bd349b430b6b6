package manager_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// site and deployment are objects of two informers.
type (
	site       struct{ Name string }
	deployment struct{ ID, Site string }
)

// list is a source that never changes.
func list[T any](items ...T) func(context.Context) ([]T, error) {
	return func(context.Context) ([]T, error) { return items, nil }
}

// A manager fills the caches, waits for the lease, runs the controller, and goes back in reverse order.
func ExampleManager() {
	siteKey := func(s site) string { return s.Name }
	deploymentKey := func(d deployment) string { return d.ID }
	siteSource, err := poll.New(list(site{"north"}), siteKey, poll.Config[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(siteSource, siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	deploymentSource, err := poll.New(list(deployment{"d1", "north"}, deployment{"d2", "north"}), deploymentKey,
		poll.Config[deployment]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	deployments, err := informer.New(deploymentSource, deploymentKey, informer.Config{Name: "deployments"})
	if err != nil {
		fmt.Println(err)
		return
	}

	siteOf := func(_ context.Context, d deployment) ([]string, error) { return []string{d.Site}, nil }
	ctx, cancel := context.WithCancel(context.Background())
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		fence, _ := store.FenceFrom(ctx)
		_, exists := sites.Get(name)
		fmt.Printf("%s: exists %v, deployments %d, term %d\n", name, exists, deployments.Indexer().Len(), fence.Term)
		cancel() // once is enough here
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(sites), controller.Watches(deployments, siteOf))
	if err != nil {
		fmt.Println(err)
		return
	}

	m, err := manager.New(manager.Config{
		Election: &leaderelect.Config{Store: memlease.New(), Key: "sites", Logger: quiet},
		BeforeRelease: func(context.Context) error {
			fmt.Println("the last word of the leader")
			return nil
		},
	}, c)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Run(ctx))
	// Output:
	// north: exists true, deployments 2, term 1
	// the last word of the leader
	// <nil>
}
