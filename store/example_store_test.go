package store_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Site is what the examples store.
type Site struct {
	Domain   string
	Replicas int
}

// A database holds objects of several kinds. An update must name the version that it replaces.
func Example() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, err := store.Open[Site](db, "site", store.Config[Site]{})
	if err != nil {
		fmt.Println(err)
		return
	}

	site, err := sites.Create(ctx, store.Object[Site]{Key: "shop", Value: Site{Domain: "shop.example", Replicas: 1}})
	fmt.Println(site.Version, site.Value, err)

	old := site
	site.Value.Replicas = 3
	site, err = sites.Update(ctx, site)
	fmt.Println(site.Version, site.Value, err)

	old.Value.Replicas = 2
	_, err = sites.Update(ctx, old)
	fmt.Println(err)

	last, err := sites.Delete(ctx, "shop")
	fmt.Println(last.Version, last.Value, err)
	_, err = sites.Get(ctx, "shop")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// 1 {shop.example 1} <nil>
	// 2 {shop.example 3} <nil>
	// store: update site "shop": object has changed: version is 2, not 1
	// 3 {shop.example 3} <nil>
	// true
}

// Functions ask for no more of a store than they need.
func ExampleStore_read() {
	total := func(ctx context.Context, sites store.Store[Site]) (sum int, err error) {
		list, err := sites.List(ctx)
		for _, site := range list.Items {
			sum += site.Value.Replicas
		}
		return sum, err
	}

	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop", Value: Site{Replicas: 3}})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "blog", Value: Site{Replicas: 1}})
	fmt.Println(total(ctx, sites))
	// Output: 4 <nil>
}

func ExampleStore_write() {
	ensure := func(ctx context.Context, sites store.Store[Site], key string) error {
		_, err := sites.Create(ctx, store.Object[Site]{Key: key})
		if errors.Is(err, store.ErrExists) {
			return nil
		}
		return err
	}

	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	fmt.Println(ensure(ctx, sites, "shop"), ensure(ctx, sites, "shop"))
	// Output: <nil> <nil>
}

func ExampleStore() {
	db := store.NewMemory(store.MemoryConfig{})
	var sites store.Store[Site]
	sites, err := store.Open[Site](db, "site", store.Config[Site]{})
	fmt.Println(sites.Kind(), err)
	// Output: site <nil>
}

// Tests want watches that expire, and the same UIDs in every run.
func ExampleMemoryConfig() {
	n := 0
	db := store.NewMemory(store.MemoryConfig{History: 100})
	sites, _ := store.Open(db, "site", store.Config[Site]{
		NewUID: func() string { n++; return fmt.Sprint("uid-", n) },
	})
	site, _ := sites.Create(context.Background(), store.Object[Site]{Key: "shop"})
	fmt.Println(site.UID)
	// Output: uid-1
}

// A type that JSON does not keep cannot be opened, as with a database.
func ExampleMemory() {
	type Session struct {
		User string
		Done chan struct{}
	}
	db := store.NewMemory(store.MemoryConfig{})
	_, err := store.Open[Session](db, "session", store.Config[Session]{})
	fmt.Println(err)
	// Output: store: open session: store_test.Session.Done: chan struct {} is not plain data
}
