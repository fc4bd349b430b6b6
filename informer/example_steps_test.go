package informer_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A test decides how far the cache is behind the source, and the handler behind the cache.
func ExampleSteps() {
	type Site struct{ Name, Region string }
	src := informertest.NewSource(func(s Site) string { return s.Name })
	src.Put(Site{"ulm", "south"})
	sites, err := informer.New(src, src.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:    func(s Site, _ bool) { fmt.Println("added:", s) },
		OnUpdate: func(old, s Site) { fmt.Println("updated:", old, s) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	steps, err := sites.Steps(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer steps.Stop()

	show := func() {
		ulm, _ := sites.Get("ulm")
		fmt.Println("in the cache:", ulm)
	}
	steps.Read(ctx) // the list
	steps.Apply()
	steps.Deliver(handler)

	src.Put(Site{"ulm", "north"})
	steps.Read(ctx) // the event
	show()
	steps.Apply()
	show()
	var stats informer.Stats = sites.Stats()
	fmt.Println("waiting for handlers:", stats.Backlog)
	steps.Deliver(handler)
	// Output:
	// added: {ulm south}
	// in the cache: {ulm south}
	// in the cache: {ulm north}
	// waiting for handlers: 1
	// updated: {ulm south} {ulm north}
}
