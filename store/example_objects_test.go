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
	db := store.NewMemory(store.MemoryConfig{})
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
func ExampleRef() {
	ctx := context.Background()
	n := 0
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open(db, "site", store.Config[Site]{
		NewUID: func() string { n++; return fmt.Sprint("uid-", n) },
	})
	first, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})
	_, _ = sites.Delete(ctx, "shop")
	second, _ := sites.Create(ctx, store.Object[Site]{Key: "shop"})
	fmt.Println(first.Ref())
	fmt.Println(second.Ref())
	// Output:
	// {site shop uid-1}
	// {site shop uid-2}
}

// List, then watch from the version of the list: nothing is missed and nothing is reported twice.
func ExampleStore_watch() {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	db := store.NewMemory(store.MemoryConfig{})
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

// An owner is a reference too. One of the owners decides about the object.
func ExampleOwnerRef() {
	site := store.Ref{Kind: "site", Key: "shop", UID: "uid-1"}
	server := store.Object[Site]{Key: "shop-1", Owners: []store.OwnerRef{{Ref: site, Controller: true}}}
	fmt.Println(server.Owners[0].Kind, server.Owners[0].Key, server.Owners[0].Controller)
	// Output: site shop true
}

// An Informer mirrors the objects of a store. A store is its source, and Key says where each object belongs.
func ExampleInformer() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open(db, "site", store.Config[Site]{})
	created, _ := sites.Create(ctx, store.Object[Site]{Key: "shop", Value: Site{Replicas: 3}})
	var mirror *store.Informer[Site]
	mirror, err := informer.New(sites, store.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error, 1)
	go func() { done <- mirror.Run(ctx) }()
	_ = mirror.WaitForVersion(ctx, created.Version)
	site, ok := mirror.Get("shop")
	fmt.Println(site.Kind, site.Value.Replicas, ok)
	cancel()
	<-done
	// Output: site 3 true
}

// Objects go into a cache under their keys.
func ExampleKey() {
	sites := cache.NewIndexer(store.Key[Site])
	sites.Upsert(store.Object[Site]{Key: "shop", Value: Site{Replicas: 3}})
	site, ok := sites.Get("shop")
	fmt.Println(site.Value.Replicas, ok)
	// Output: 3 true
}

// Patch reads, changes, and writes, and retries if another writer was faster.
func ExamplePatch() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop"})
	site, err := store.Patch(ctx, sites, "shop", func(o *store.Object[Site]) error {
		o.Value.Replicas++
		return nil
	})
	fmt.Println(site.Value.Replicas, err)
	// Output: 1 <nil>
}
