package manager_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/store"
)

// Replicas share the sites: the replica that owns the slot of a site caches and reconciles it. This one is alone.
func ExampleManager_shards() {
	siteKey := func(s site) string { return s.Name }
	source, err := poll.New(list(site{"north"}, site{"south"}), siteKey, poll.Config[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The cache has only the sites of the slots that this replica owns. Without Divide, it has all of them.
	sites, err := informer.New(informer.Divide(source, siteKey), siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}

	reconciled := make(chan string, 100)
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		fence, _ := store.FenceFrom(ctx) // every write to a store.Store carries it
		reconciled <- fmt.Sprintf("%s, in term %d of its slot", name, fence.Term)
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(sites))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := manager.New(manager.Config{
		Shards: &shard.Config{
			Lease: leaderelect.Config{Store: memlease.New(), Key: "tenants", Logger: quiet},
			Slots: 8,
		},
	}, c)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	done := map[string]bool{}
	for len(done) < 2 { // a key that was there when its slot was acquired may come twice
		done[<-reconciled] = true
	}
	cancel()
	fmt.Println(<-ended)
	for _, line := range slices.Sorted(maps.Keys(done)) {
		fmt.Println(line)
	}
	// Output:
	// <nil>
	// north, in term 1 of its slot
	// south, in term 1 of its slot
}
