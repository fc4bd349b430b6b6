package controller_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Replicas share the tenants: each tenant is reconciled by the replica that owns its slot. This one is alone.
func ExampleSharded() {
	m, err := controller.NewManager(controller.ManagerConfig{
		Slots: &leaderelect.SlotsConfig{
			Lease: leaderelect.Config{Store: leaderelect.NewMemoryStore(), Key: "tenants", Logger: quiet},
			Slots: 8,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	siteKey := func(s site) string { return s.Name }
	source, err := informer.Poll(list(site{"north"}, site{"south"}), siteKey, informer.PollConfig[site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(source, siteKey, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}

	bySlot := cache.AddIndex(sites.Indexer(), func(s site) []int { return []int{m.Slots().Slot(s.Name)} })

	reconciled := make(chan string, 100)
	c, err := controller.NewSharded("sites", controller.Func[string](func(ctx context.Context, name string) (controller.Result, error) {
		term, _ := leaderelect.Term(ctx) // goes with every write
		reconciled <- fmt.Sprintf("%s, in term %d of its slot", name, term)
		return controller.Result{}, nil
	}), m.Slots(), controller.ShardedConfig[string]{
		Keys: func(slot int) iter.Seq[string] {
			return func(yield func(string) bool) {
				for name := range bySlot.All(slot) {
					if !yield(name) {
						return
					}
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	controller.WatchKeys(c.Controller, sites)
	m.AddSource(sites)
	m.AddController(c)

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
