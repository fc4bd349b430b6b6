package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// The context of a leader carries its term into each write. Package leaderelect makes such contexts.
func ExampleFence() {
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	ctx := context.Background()
	old := store.WithFence(ctx, store.Fence{Lease: "sites", Term: 1})
	leader := store.WithFence(ctx, store.Fence{Lease: "sites", Term: 2})

	_, err = sites.Create(leader, store.Object[Site]{Key: "shop"})
	fmt.Println(err)
	_, err = sites.Delete(old, "shop")
	fmt.Println(err)
	_, err = sites.Delete(store.Unfenced(old), "shop") // allowed, whichever process leads
	fmt.Println(err)
	// Output:
	// <nil>
	// store: delete site "shop": a later term has written: term 1 of lease "sites" is over, 2 has written
	// <nil>
}

// A record that does not decode is reported, and stops nothing else.
func ExampleStats() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{
		OnUndecodable: func(e *store.Error) { fmt.Println("hook:", e.Kind, e.Key, e.Have) },
		Logger:        slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})
	_, _ = db.Transact(ctx, "site", "blog", nil, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Meta: []byte("{}"), Value: []byte("<site/>")}, nil // by another client
	})

	list, err := sites.List(ctx)
	fmt.Println(len(list.Items), "listed,", len(list.Unread), "unread:", err)
	_, err = sites.Get(ctx, "blog")
	fmt.Println(errors.Is(err, store.ErrDecode))
	var stats store.Stats = sites.Stats()
	fmt.Println(len(stats.Undecodable))
	// Output:
	// hook: site blog 2
	// 1 listed, 1 unread: <nil>
	// true
	// 1
}
