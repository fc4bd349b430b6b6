package controller_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/store"
)

// The world changes without an event: an operator stops a machine by hand. A resync reconciles every key once per period.
func ExampleConfig_resync() {
	name := func(s string) string { return s }
	wanted := informertest.NewSource(name)
	wanted.Put("ulm")
	sites, err := informer.New(wanted, name, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	runs := false // the machine; one worker reconciles one key
	first := true
	c, err := controller.New("sites", func(_ context.Context, site string) (controller.Result, error) {
		switch {
		case !runs:
			fmt.Println("starting the machine of", site)
			runs = true
			if !first {
				cancel()
			}
		case first:
			first, runs = false, false // an operator stops it, and there is no event
		}
		return controller.Result{}, nil
	}, controller.Config[string]{Resync: 10 * time.Millisecond}, controller.For(sites)) // an hour, more likely
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	fmt.Println(c.Run(ctx), <-ended)
	// Output:
	// starting the machine of ulm
	// starting the machine of ulm
	// <nil> <nil>
}

// A reconcile counts what it has done in a store. Unless Config.StaleReads is set, the key is held until the cache shows the write,
// so no reconcile reads what its own write has replaced.
func ExampleConfig_staleReads() {
	for _, stale := range []bool{false, true} {
		if err := countTwice(stale); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// the cache says 0
	// held
	// the cache says 1
	// the cache says 0
	// the cache says 0
	// update: a conflict: true
}

// countTwice reconciles a key twice, while the cache lags.
func countTwice(stale bool) error {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	counters, err := store.Open(db, "Counter", store.Config[int]{})
	if err != nil {
		return err
	}
	if _, err := counters.Create(ctx, store.Object[int]{Key: "ulm"}); err != nil {
		return err
	}
	cached, err := informer.New(counters, store.Key[int], informer.Config{Name: "counters"})
	if err != nil {
		return err
	}
	steps, err := cached.Steps(ctx) // the example decides how far the cache is
	if err != nil {
		return err
	}
	defer steps.Stop()
	c, err := controller.New("counters", func(ctx context.Context, key string) (controller.Result, error) {
		counter, _ := cached.Get(key)
		fmt.Println("the cache says", counter.Value)
		counter.Value++
		_, err := counters.Update(ctx, counter)
		return controller.Result{}, err
	}, controller.Config[string]{StaleReads: stale, Reads: []controller.Informer{cached}})
	if err != nil {
		return err
	}
	steps.Read(ctx)
	steps.Apply()

	c.Add("ulm")
	c.Step(ctx, "ulm")
	c.Add("ulm")
	report, ok := c.Step(ctx, "ulm")
	if !ok {
		fmt.Println("held")
		steps.Read(ctx)
		steps.Apply() // the write
		c.Step(ctx, "ulm")
		return nil
	}
	fmt.Println("update: a conflict:", errors.Is(report.Err, store.ErrConflict))
	return nil
}

// A new event makes the reconcile in flight pointless. Its context ends, and the key is reconciled again at once.
func ExampleConfig_cancelSuperseded() {
	ctx, cancel := context.WithCancel(context.Background())
	began := make(chan struct{})
	attempts := 0
	c, err := controller.New("builds", func(ctx context.Context, branch string) (controller.Result, error) {
		if attempts++; attempts > 1 {
			fmt.Println("building", branch)
			cancel()
			return controller.Result{}, nil
		}
		close(began)
		<-ctx.Done() // a long build
		fmt.Println(context.Cause(ctx))
		return controller.Result{}, ctx.Err()
	}, controller.Config[string]{CancelSuperseded: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	c.Add("main")
	<-began
	c.Add("main") // a push
	fmt.Println(<-ended)
	// Output:
	// controller: superseded by a newer event
	// building main
	// <nil>
}
