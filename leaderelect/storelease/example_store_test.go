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

// The lease stands in the database that the leader writes to. When another takes over, the database refuses what is left
// of the leader before.
func ExampleStore() {
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	records, err := store.Open[storelease.Record](db, "leases")
	if err != nil {
		fmt.Println(err)
		return
	}
	orders, err := store.Open[string](db, "orders")
	if err != nil {
		fmt.Println(err)
		return
	}
	var terms []uint64
	leases, err := storelease.New(records, storelease.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := leaderelect.New(leaderelect.Config{
		Store:  leases,
		Key:    "shop",
		Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(_ context.Context, l *leaderelect.Leadership) error {
			terms = append(terms, l.Term())
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	fmt.Println(elector.RunOnce(ctx), elector.RunOnce(ctx))
	for _, term := range terms {
		_, err := orders.Create(ctx, store.Object[string]{Key: fmt.Sprint("by term ", term)}, store.IfTerm(term))
		fmt.Println("term", term, "is refused:", errors.Is(err, store.ErrFenced))
	}
	// Output:
	// <nil> <nil>
	// term 1 is refused: true
	// term 2 is refused: false
}
