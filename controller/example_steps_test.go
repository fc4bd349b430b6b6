package controller_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A test decides the order in which things happen: here the last key first, from a cache that lags.
func ExampleController_Connect() {
	type site struct {
		Name string
		Size int
	}
	src := informertest.NewSource(func(s site) string { return s.Name })
	src.Put(site{"bonn", 1})
	src.Put(site{"ulm", 1})
	sites, err := informer.New(src, src.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := controller.New("sites", func(_ context.Context, name string) (controller.Result, error) {
		s, ok := sites.Get(name)
		fmt.Println("reconcile", name, s.Size, ok)
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(sites))
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
	disconnect, err := c.Connect(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer disconnect()

	steps.Read(ctx) // the list
	steps.Apply()
	for _, handler := range steps.Handlers() {
		for steps.Deliver(handler) {
		}
	}
	fmt.Println("ready:", c.Ready())
	src.Put(site{"ulm", 2}) // the cache does not know yet
	c.Step(ctx, "ulm")
	c.Step(ctx, "bonn")

	steps.Read(ctx)
	steps.Apply()
	steps.Deliver(steps.Handlers()[0])
	fmt.Println("ready:", c.Ready())
	c.Step(ctx, "ulm")
	// Output:
	// ready: [bonn ulm]
	// reconcile ulm 1 true
	// reconcile bonn 1 true
	// ready: [ulm]
	// reconcile ulm 2 true
}
