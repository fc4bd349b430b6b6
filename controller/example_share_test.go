package controller_test

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
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

// Replicas share the tenants: the replica that owns the slot of a tenant reconciles it. This one is alone.
func ExampleController_Share() {
	var c *controller.Controller[string]
	owned, err := shard.New(shard.Config{
		Lease:      leaderelect.Config{Store: memlease.New(), Key: "tenants", Logger: quiet},
		Slots:      8,
		OnAcquired: func(_ context.Context, slot int) error { c.Acquired(slot); return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	same := func(name string) string { return name }
	names := func(context.Context) ([]string, error) { return []string{"north", "south"}, nil }
	polled, err := poll.New(names, same, poll.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(polled, same, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}

	reconciled := make(chan string, 100)
	c, err = controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		fence, _ := store.FenceFrom(ctx) // every write to a store.Store carries it
		reconciled <- fmt.Sprintf("%s, in term %d of its slot", name, fence.Term)
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(sites))
	if err != nil {
		fmt.Println(err)
		return
	}
	var slots controller.Slots = owned
	c.Share(slots) // a manager with Config.Shards does that, and all that follows

	ctx, cancel := context.WithCancel(context.Background())
	var running wait.Group
	var cache controller.Informer = sites
	running.Start(ctx, cache.Run)
	running.Start(ctx, c.Run)
	running.Start(ctx, owned.Run)
	done := map[string]bool{}
	for len(done) < 2 { // a key that was there when its slot was acquired may come twice
		done[<-reconciled] = true
	}
	cancel()
	fmt.Println(running.Wait())
	for _, line := range slices.Sorted(maps.Keys(done)) {
		fmt.Println(line)
	}
	// Output:
	// <nil>
	// north, in term 1 of its slot
	// south, in term 1 of its slot
}
