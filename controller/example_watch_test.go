package controller_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Site is what somebody wants, and what the controller says about it. Its status is no wish.
type Site struct {
	Domain string
	Status string
}

// WithStatusOf tells the store which part is the status.
func (s Site) WithStatusOf(other Site) Site {
	s.Status = other.Status
	return s
}

// A controller that writes the status of what it watches does not want to hear of its own writes: they do not change the
// generation. Here the domain of a site has to be looked up to find the key, and the first look-up fails.
func ExampleWatchMap() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := store.Open[Site](db, "Site", store.Config[Site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mirror, err := informer.New(sites, store.Key[Site], informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reconciled := make(chan string)
	c, err := controller.New("domains", controller.Func[string](func(_ context.Context, domain string) (controller.Result, error) {
		reconciled <- domain
		return controller.Result{}, nil
	}), controller.Config[string]{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	lookUp := func(_ context.Context, _ string, site store.Object[Site]) ([]string, error) {
		if attempts++; attempts == 1 {
			return nil, errors.New("the registry is busy")
		}
		return []string{"registered as " + site.Value.Domain}, nil
	}
	controller.WatchMap(c, mirror, lookUp, controller.GenerationChanged)

	var running sync.WaitGroup
	running.Go(func() { _ = mirror.Run(ctx) })
	running.Go(func() { _ = c.Run(ctx) })

	site, err := sites.Create(ctx, store.Object[Site]{Key: "shop", Value: Site{Domain: "shop.example"}})
	fmt.Println(<-reconciled, err)

	site.Value.Status = "up"
	site, err = sites.UpdateStatus(ctx, site) // which is no news
	fmt.Println(site.Version, site.Generation, err)
	site.Value.Domain = "store.example"
	_, err = sites.Update(ctx, site)
	first, second := <-reconciled, <-reconciled
	fmt.Println(first, err)
	fmt.Println(second)

	cancel()
	running.Wait()
	// Output:
	// registered as shop.example <nil>
	// 2 1 <nil>
	// registered as shop.example <nil>
	// registered as store.example
}

// What is no informer tells by a channel.
func ExampleWatchChannel() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	reconciled := make(chan string)
	c, err := controller.New("repositories", controller.Func[string](func(_ context.Context, key string) (controller.Result, error) {
		reconciled <- key
		return controller.Result{}, nil
	}), controller.Config[string]{Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	type push struct{ repository, branch string }
	hooks := make(chan push)
	controller.WatchChannel(c, "webhooks", hooks, func(_ context.Context, p push) ([]string, error) {
		if p.branch != "main" {
			return nil, nil
		}
		return []string{p.repository}, nil
	})
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	hooks <- push{"website", "wip"}
	hooks <- push{"website", "main"}
	fmt.Println(<-reconciled)
	cancel()
	running.Wait()
	// Output: website
}

// A filter compares what was with what is.
func ExampleFilter() {
	type lamp struct {
		Name string
		Lux  int
	}
	grew := func(c controller.Change[lamp]) bool { return c.New.Lux > c.Old.Lux }
	renamed := controller.Changed(func(l lamp) string { return l.Name })
	matters := controller.AnyOf(renamed, grew)

	update := func(old, new lamp) controller.Change[lamp] {
		return controller.Change[lamp]{Type: informer.Modified, Old: old, New: new}
	}
	fmt.Println(matters(update(lamp{"a", 3}, lamp{"a", 4})))
	fmt.Println(matters(update(lamp{"a", 4}, lamp{"a", 3})))
	fmt.Println(matters(update(lamp{"a", 4}, lamp{"b", 3})))
	// Output:
	// true
	// false
	// true
}
