package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// Site is a desired state, and the status that the controller reports.
type Site struct {
	Domain string
	Status string `store:"status"`
}

// A controller that writes the status of the objects that it watches ignores its own writes: they do not change the generation. Here
// finding the key requires a look-up of the site's domain, and the first look-up fails.
func ExampleWatches_retried() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open[Site](db, "Site", store.Config[Site]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mirror, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	attempts := 0
	lookUp := func(_ context.Context, site store.Object[Site]) ([]string, error) {
		if attempts++; attempts == 1 {
			return nil, errors.New("the registry is busy")
		}
		return []string{"registered as " + site.Value.Domain}, nil
	}
	reconciled := make(chan string)
	c, err := controller.New("domains", func(_ context.Context, domain string) (controller.Result, error) {
		reconciled <- domain
		return controller.Result{}, nil
	}, controller.Config[string]{Logger: quiet}, controller.Watches(mirror, lookUp).When(store.GenerationChanged))
	if err != nil {
		fmt.Println(err)
		return
	}

	var running sync.WaitGroup
	running.Go(func() { _ = mirror.Run(ctx) })
	running.Go(func() { _ = c.Run(ctx) })

	site, err := sites.Create(ctx, store.Object[Site]{Key: "shop", Value: Site{Domain: "shop.example"}})
	fmt.Println(<-reconciled, err)

	site.Value.Status = "up"
	site, err = sites.UpdateStatus(ctx, site) // ignored: a write of the status
	fmt.Println(site.Version, site.Generation, err)
	site.Value.Domain = "store.example"
	_, err = sites.Update(ctx, site)
	both := []string{<-reconciled, <-reconciled} // the old key and the new one, in either order
	slices.Sort(both)
	fmt.Println(both[0], err)
	fmt.Println(both[1])

	cancel()
	running.Wait()
	// Output:
	// registered as shop.example <nil>
	// 2 1 <nil>
	// registered as shop.example <nil>
	// registered as store.example
}
