package owner_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// An app has the replicas that it wants, whatever was there before.
func ExampleChildren_Apply() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	apps, replicas, cached := exampleStores()
	go cached.Run(ctx) // a manager does this; it ends with ctx
	children := owner.NewChildren(replicas, cached)
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	for _, want := range []map[string]Replica{
		{"web-1": {"m1"}, "web-2": {"m1"}},
		{"web-2": {"m2"}, "web-3": {"m2"}},
	} {
		have, err := children.Apply(ctx, app.Ref(), want)
		for _, child := range have {
			fmt.Print(child.Key, " on ", child.Value.Machine, ", ")
			_ = cached.WaitForVersion(ctx, child.Version) // a controller does this
		}
		fmt.Println(err)
	}
	left, _ := replicas.List(ctx)
	fmt.Println(len(left.Items), "replicas in the store")
	// Output:
	// web-1 on m1, web-2 on m1, <nil>
	// web-2 on m2, web-3 on m2, <nil>
	// 2 replicas in the store
}

// An app adopts what has no owner and matches. The child of another owner stays where it is.
func ExampleChildren_Claim() {
	ctx := context.Background()
	apps, replicas, cached := exampleStores()
	web, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	shop, _ := apps.Create(ctx, store.Object[App]{Key: "shop"})
	_, _ = replicas.Create(ctx, store.Object[Replica]{Key: "1", Labels: map[string]string{"tier": "front"}})
	_, _ = replicas.Create(ctx, store.Object[Replica]{Key: "2"})
	other := store.Object[Replica]{Key: "3", Labels: map[string]string{"tier": "front"}}
	_ = owner.SetController(&other, shop.Ref())
	_, _ = replicas.Create(ctx, other)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go cached.Run(ctx) // a manager does this; it ends with ctx
	_ = informer.WaitForSync(ctx, cached)
	front := func(r store.Object[Replica]) bool { return r.Labels["tier"] == "front" }
	mine, err := owner.NewChildren(replicas, cached).Claim(ctx, web.Ref(), owner.In(apps), front)
	by, _ := owner.ControllerOf(mine[0])
	fmt.Println(len(mine), mine[0].Key, by.Key, err)
	// Output: 1 1 web <nil>
}

// A child that has lost its owner is collected. controller.NewCollector makes the loop around it.
func ExampleChildren_Collect() {
	ctx := context.Background()
	apps, replicas, cached := exampleStores()
	children := owner.NewChildren(replicas, cached)
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	_, _ = children.Apply(ctx, app.Ref(), map[string]Replica{"web-1": {}})

	var owners owner.Owners = owner.In(apps)
	fmt.Println(children.Collect(ctx, "web-1", owners))
	_, _ = apps.Delete(ctx, "web")
	_, _ = apps.Create(ctx, store.Object[App]{Key: "web"}) // another life of the key
	fmt.Println(children.Collect(ctx, "web-1", owners))
	// Output:
	// false <nil>
	// true <nil>
}

// exampleStores returns apps, and their replicas with a cache.
func exampleStores() (store.Store[App], store.Store[Replica], *store.Informer[Replica]) {
	db := store.NewMemory(store.MemoryConfig{})
	apps, err1 := store.Open(db, "app", store.Config[App]{})
	replicas, err2 := store.Open(db, "replica", store.Config[Replica]{})
	cached, err3 := informer.New(replicas, store.Key, informer.Config{})
	if err := errors.Join(err1, err2, err3); err != nil {
		log.Fatal(err)
	}
	return apps, replicas, cached
}

// A finalizer removes its entry before the object goes.
func ExampleFinalizer() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	say := func(text string) func(context.Context, store.Object[App]) error {
		return func(_ context.Context, app store.Object[App]) error {
			fmt.Println(text, app.Key, app.Finalizers)
			return nil
		}
	}
	dns := owner.Finalizer[App]{Name: "dns", Apply: say("apply"), Cleanup: say("cleanup")}
	_, _ = apps.Create(ctx, store.Object[App]{Key: "web"})
	app, live, err := dns.Reconcile(ctx, apps, "web")
	fmt.Println(app.Finalizers, live, err)
	_, _ = apps.Delete(ctx, "web")
	app, live, err = dns.Reconcile(ctx, apps, "web")
	fmt.Println(app.Finalizers, live, err)
	_, err = apps.Get(ctx, "web")
	fmt.Println(err)
	// Output:
	// apply web [dns]
	// [dns] true <nil>
	// cleanup web [dns]
	// [] false <nil>
	// store: get app "web": object not found
}
