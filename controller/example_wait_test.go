package controller_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// A request is answered when its work is done.
func ExampleController_WaitReconciled() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type record struct{ Address string }
	db := store.NewMemory(store.MemoryConfig{})
	records, err := store.Open[record](db, "Record", store.Config[record]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mirror, err := informer.New(records, store.Key, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	zone := map[string]string{}
	c, err := controller.New("zone", func(_ context.Context, name string) (controller.Result, error) {
		if r, ok := mirror.Get(name); ok {
			zone[name] = r.Value.Address
		}
		return controller.Result{}, nil
	}, controller.Config[string]{}, controller.For(mirror))
	if err != nil {
		fmt.Println(err)
		return
	}
	var running sync.WaitGroup
	running.Go(func() { _ = mirror.Run(ctx) })
	running.Go(func() { _ = c.Run(ctx) })

	written, err := records.Create(ctx, store.Object[record]{Key: "www", Value: record{"192.0.2.7"}})
	if err == nil {
		var wrote controller.Written = written // any object of a store is one
		err = c.WaitReconciled(ctx, written.Key, wrote)
	}
	if err == nil {
		err = c.WaitIdle(ctx) // zone is no longer written
	}
	fmt.Println(zone["www"], err)
	cancel()
	running.Wait()
	// Output: 192.0.2.7 <nil>
}
