package owner_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// The app goes when its replicas are gone. One of them takes its time.
func ExampleCascade() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	for _, child := range []store.Object[Replica]{{Key: "web-1"}, {Key: "web-2", Finalizers: []string{"drain"}}} {
		_ = owner.SetController(&child, app.Ref())
		_, _ = replicas.Create(ctx, child)
	}

	fmt.Println(owner.Delete(ctx, apps, "web", owner.Foreground))

	// The work of a reconcile of apps, which has the replicas as an input of controller.Owns.
	cached, _ := informer.New(replicas, store.Key, informer.Config{})
	children := []owner.Dependents{owner.NewChildren(replicas, cached)}
	fmt.Println(owner.Cascade(ctx, apps, "web", children...))
	_, _ = store.Patch(ctx, replicas, "web-2", func(o *store.Object[Replica]) error { o.Finalizers = nil; return nil })
	fmt.Println(owner.Cascade(ctx, apps, "web", children...))
	_, err := apps.Get(ctx, "web")
	fmt.Println(err)
	// Output:
	// <nil>
	// 1 <nil>
	// 0 <nil>
	// store: get app "web": object not found
}

// An app that is replaced by another kind of thing leaves its replicas to it.
func ExamplePolicy() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web", Finalizers: []string{string(owner.Orphan)}})
	child := store.Object[Replica]{Key: "web-1"}
	_ = owner.SetController(&child, app.Ref())
	_, _ = replicas.Create(ctx, child)

	_, _ = apps.Delete(ctx, "web") // by code that need not know about the policy
	cached, _ := informer.New(replicas, store.Key, informer.Config{})
	fmt.Println(owner.Cascade(ctx, apps, "web", owner.NewChildren(replicas, cached)))
	child, err := replicas.Get(ctx, "web-1")
	fmt.Println(len(child.Owners), err)
	// Output:
	// 0 <nil>
	// 0 <nil>
}

// A Tenant has nothing to say. It is there so that what belongs to it can be removed by one deletion.
type Tenant struct{}

// What a tenant has is of several kinds, and hangs off one empty object. It is created first, so that whatever comes to be
// before a crash hangs off it, and it goes last, so that its name is not free before everything is gone.
func Example_rootObject() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	tenants, _ := store.Open[Tenant](db, "tenant", store.Config[Tenant]{})
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})

	root, _ := tenants.Create(ctx, store.Object[Tenant]{Key: "acme"})
	app := store.Object[App]{Key: "acme/web"}
	replica := store.Object[Replica]{Key: "acme/web-1"}
	_ = owner.SetController(&app, root.Ref())
	_ = owner.SetController(&replica, root.Ref())
	_, _ = apps.Create(ctx, app)
	_, _ = replicas.Create(ctx, replica)

	_ = owner.Delete(ctx, tenants, "acme", owner.Foreground)
	cachedApps, _ := informer.New(apps, store.Key, informer.Config{})
	cachedReplicas, _ := informer.New(replicas, store.Key, informer.Config{})
	itsApps, itsReplicas := owner.NewChildren(apps, cachedApps), owner.NewChildren(replicas, cachedReplicas)
	itsApps.Among = func(of store.Ref) store.Selector { return store.Selector{Prefix: of.Key + "/"} }
	itsReplicas.Among = itsApps.Among
	fmt.Println(owner.Cascade(ctx, tenants, "acme", itsApps, itsReplicas))

	_, err := apps.Get(ctx, "acme/web")
	fmt.Println(err)
	_, err = replicas.Get(ctx, "acme/web-1")
	fmt.Println(err)
	_, err = tenants.Get(ctx, "acme")
	fmt.Println(err)
	// Output:
	// 0 <nil>
	// store: get app "acme/web": object not found
	// store: get replica "acme/web-1": object not found
	// store: get tenant "acme": object not found
}
