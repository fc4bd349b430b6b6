package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

// The context of a leader carries its term into each write. Package leaderelect makes such contexts.
func ExampleFence() {
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	ctx := context.Background()
	old := store.WithFence(ctx, store.Fence{Lease: "sites", Term: 1})
	leader := store.WithFence(ctx, store.Fence{Lease: "sites", Term: 2})

	_, err := sites.Create(leader, store.Object[Site]{Key: "shop"})
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
func ExampleStore_list() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})
	_, _ = db.Transact(ctx, "site", "blog", nil, func(backend.Record) (*backend.Record, error) {
		return &backend.Record{Meta: []byte("{}"), Value: []byte("<site/>")}, nil // by another client
	})

	list, err := sites.List(ctx)
	fmt.Println(len(list.Items), "listed,", len(list.Unread), "unread:", err)
	_, err = sites.Get(ctx, "blog")
	fmt.Println(errors.Is(err, store.ErrDecode), list.Unread[0].Object.Key)
	// Output:
	// 1 listed, 1 unread: <nil>
	// true blog
}
