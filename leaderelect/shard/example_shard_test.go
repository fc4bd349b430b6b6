package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
)

// A single replica owns all slots. Each key belongs to one of them.
func ExampleSlots() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var acquired sync.WaitGroup
	acquired.Add(4)
	slots, err := shard.New(shard.Config{
		Lease: leaderelect.Config{
			Store: memlease.New(), Key: "tenants", Identity: "ann", Logger: slog.New(slog.DiscardHandler),
		},
		Slots: 4,
		OnAcquired: func(context.Context, int) error {
			acquired.Done() // here a controller enqueues the keys of the slot
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var replica sync.WaitGroup
	replica.Go(func() { fmt.Println(slots.Run(ctx)) })
	acquired.Wait()
	var stats shard.Stats = slots.Stats()
	fmt.Println("slots:", stats.Owned, "of", stats.Slots)

	for _, key := range []string{"tenant-1", "tenant-2"} {
		work, done, ok := slots.Begin(ctx, key)
		l, _ := leaderelect.FromContext(work) // its term goes with every write
		fmt.Println(key, ok, "in term", l.Term())
		done()
	}
	cancel() // the work drains, the slots are released
	replica.Wait()
	_, _, ok := slots.Begin(ctx, "tenant-1")
	fmt.Println("tenant-1", ok)
	// Output:
	// slots: 4 of 4
	// tenant-1 true in term 1
	// tenant-2 true in term 1
	// <nil>
	// tenant-1 false
}

// Config.Lease configures the leases of all slots.
func ExampleConfig() {
	_, err := shard.New(shard.Config{
		Lease:      leaderelect.Config{Store: memlease.New(), Key: "tenants"},
		Slots:      5000,
		OnAcquired: func(context.Context, int) error { return nil },
	})
	fmt.Println(err)
	// Output: shard: new: Config.Slots is 5000, must be 1 to 4096
}

// List reads many records at once.
func ExampleLister() {
	ctx := context.Background()
	s := memlease.New()
	for _, key := range []string{"shards/1", "jobs/1", "shards/0"} {
		_, _ = s.Create(ctx, leaderelect.Entry{Key: key, Value: []byte("of " + key)})
	}
	var l shard.Lister = s
	list, err := l.List(ctx, "shards/")
	for _, e := range list {
		fmt.Printf("%s: %s\n", e.Key, e.Value)
	}
	fmt.Println(err)
	// Output:
	// shards/0: of shards/0
	// shards/1: of shards/1
	// <nil>
}
