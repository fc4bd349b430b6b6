package storelease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
)

// The lease is in the same database as the leader's data. After a takeover, the database refuses late writes of the earlier
// leader.
func ExampleStore() {
	db := store.NewMemory(store.MemoryConfig{})
	records, err := store.Open[storelease.Record](db, "leases", store.Config[storelease.Record]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := store.Open[string](db, "orders", store.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var leaders []context.Context
	leases := storelease.New(records, storelease.Config{})
	elector, err := leaderelect.New(leaderelect.Config{
		Store:  leases,
		Key:    "shop",
		Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			leaders = append(leaders, context.WithoutCancel(ctx)) // one that does not notice that its time is over
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(elector.RunOnce(ctx), elector.RunOnce(ctx))
	for i, leader := range leaders {
		_, err := orders.Create(leader, store.Object[string]{Key: fmt.Sprint("by leader ", i+1)})
		fmt.Println("leader", i+1, "is refused:", errors.Is(err, store.ErrFenced))
	}
	// Output:
	// <nil> <nil>
	// leader 1 is refused: true
	// leader 2 is refused: false
}
