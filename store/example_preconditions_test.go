package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// A decision on an earlier read carries a precondition, so it does no harm to an object that was created in the meantime.
func ExamplePrecondition() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	read, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})

	_, _ = sites.Delete(ctx, "shop")
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})

	_, err := sites.Delete(ctx, "shop", store.IfUID(read.UID))
	fmt.Println(errors.Is(err, store.ErrConflict))
	// Output: true
}

// A leader writes in its term. Once its successor has written, its own writes are refused.
func ExampleIfTerm() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, err := sites.Create(ctx, store.Object[Site]{Key: "shop"}, store.IfTerm("sites", 1))
	fmt.Println(err)
	_, err = sites.Create(ctx, store.Object[Site]{Key: "blog"}, store.IfTerm("sites", 2)) // the successor
	fmt.Println(err)
	_, err = sites.Delete(ctx, "shop", store.IfTerm("sites", 1)) // the old leader, which does not know yet
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// store: delete site "shop": a later term has written: term 1 of lease "sites" is over, 2 has written
}

// An error says what it is about, and whether to try again.
func ExampleError() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	site, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})
	_, err := sites.Delete(ctx, "shop", store.IfVersion(site.Version+1))
	var e *store.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, e.Kind, e.Key, e.Have, e.Want, e.Conflict())
	}
	// Output: delete site shop 1 2 true
}
