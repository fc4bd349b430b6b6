package informer_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/workqueue"
)

// A handler that only adds keys to a queue needs no goroutine and no backlog of its own: the queue merges keys, and never blocks. Whoever
// waits for a version of the cache then also finds the keys of its changes in the queue.
func Example_inline() {
	type tenant struct{ Name, Plan string }
	src := informertest.NewSource(func(t tenant) string { return t.Name })
	tenants, err := informer.New(src, src.Key, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = tenants.AddHandler(informer.Handler[string, tenant]{
		Inline:   true,
		OnAdd:    func(t tenant, _ bool) { queue.Add(t.Name) },
		OnUpdate: func(_, t tenant) { queue.Add(t.Name) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- tenants.Run(ctx) }() // ends with ctx; waited for below

	src.Put(tenant{"ulm", "free"})
	version := src.Put(tenant{"ulm", "gold"})
	if err := tenants.WaitForVersion(ctx, version); err != nil {
		fmt.Println(err)
	}
	fmt.Println("ready:", queue.Ready())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// ready: [ulm]
	// <nil>
}
