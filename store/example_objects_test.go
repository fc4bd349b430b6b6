package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// An object with finalizers is deleted in two phases: first it says that it has to go, and when the last finalizer is
// taken away, it goes.
func ExampleObject() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop", Finalizers: []string{"dns"}})

	_, _ = sites.Delete(ctx, "shop")
	site, err := sites.Get(ctx, "shop")
	fmt.Println("deleting:", !site.Deleting.IsZero(), err)

	// Remove the DNS entry here. Then:
	site.Finalizers = nil
	_, _ = sites.Update(ctx, site)
	_, err = sites.Get(ctx, "shop")
	fmt.Println(err)
	// Output:
	// deleting: true <nil>
	// store: get site "shop": object not found
}

// A reference names one life of an object.
func ExampleOwnerRef() {
	ctx := context.Background()
	n := 0
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open(db, "site", store.Config[Site]{
		NewUID: func() string { n++; return fmt.Sprint("uid-", n) },
	})
	first, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})
	_, _ = sites.Delete(ctx, "shop")
	second, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})
	fmt.Println(first.Ref("site"))
	fmt.Println(second.Ref("site"))
	// Output:
	// {site shop uid-1 false}
	// {site shop uid-2 false}
}

// List, then watch from the version of the list: nothing is missed and nothing is told twice.
func ExampleReader_watch() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})

	list, _ := sites.List(ctx)
	fmt.Println(len(list.Items), "site at version", list.Version)
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "blog"})
	_, _ = sites.Delete(ctx, "shop")

	for event, err := range sites.Watch(ctx, list.Version) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(event.Version, event.Type, event.Object.Key)
		if event.Type == informer.Deleted {
			cancel(errors.New("seen enough"))
		}
	}
	// Output:
	// 1 site at version 1
	// 2 Added blog
	// 3 Deleted shop
	// seen enough
}

// Objects go into a cache under their keys.
func ExampleKey() {
	sites := cache.NewIndexer(store.Key[Site])
	sites.Upsert(store.Object[Site]{Key: "shop", Value: Site{Replicas: 3}})
	site, ok := sites.Get("shop")
	fmt.Println(site.Value.Replicas, ok)
	// Output: 3 true
}

// Patch reads, changes and writes, and does so again when somebody else was faster.
func ExamplePatch() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})
	site, err := store.Patch(ctx, sites, "shop", func(o *store.Object[Site]) error {
		o.Value.Replicas++
		return nil
	})
	fmt.Println(site.Value.Replicas, err)
	// Output: 1 <nil>
}
