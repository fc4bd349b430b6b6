package leaderelect_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// A replica that is alone has all slots. Each key belongs to one of them.
func ExampleSlots() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var acquired sync.WaitGroup
	acquired.Add(4)
	slots, err := leaderelect.NewSlots(leaderelect.SlotsConfig{
		Lease: leaderelect.Config{
			Store: leaderelect.NewMemoryStore(), Key: "tenants", Identity: "ann", Logger: slog.New(slog.DiscardHandler),
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

	for _, key := range []string{"tenant-1", "tenant-2"} {
		work, done, ok := slots.Begin(ctx, key)
		term, _ := leaderelect.Term(work) // goes with every write
		fmt.Println(key, ok, "in term", term)
		done()
	}
	cancel() // the work drains, the slots are released
	replica.Wait()
	fmt.Println("tenant-1", slots.Owns("tenant-1"))
	// Output:
	// tenant-1 true in term 1
	// tenant-2 true in term 1
	// <nil>
	// tenant-1 false
}

// The leases of all slots are alike.
func ExampleSlotsConfig() {
	_, err := leaderelect.NewSlots(leaderelect.SlotsConfig{
		Lease:      leaderelect.Config{Store: leaderelect.NewMemoryStore(), Key: "tenants"},
		Slots:      5000,
		OnAcquired: func(context.Context, int) error { return nil },
	})
	fmt.Println(err)
	// Output: leaderelect: new slots: SlotsConfig.Slots is 5000, must be 1 to 4096
}
