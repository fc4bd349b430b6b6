package owner_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// The app goes when its replicas are gone. One of them takes its time.
func ExampleCascade() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	for _, child := range []store.Object[Replica]{{Key: "web-1"}, {Key: "web-2", Finalizers: []string{"drain"}}} {
		_ = owner.SetController(&child, app.Ref("app"))
		_, _ = replicas.Create(ctx, child)
	}

	fmt.Println(owner.Delete(ctx, apps, "web", owner.Foreground))

	// The work of a reconcile loop over the keys of apps, which hears of replicas by owner.ControlledBy.
	var children owner.Dependents = owner.DependentsIn(replicas, nil)
	cascade := owner.NewCascade(apps, children)
	fmt.Println(cascade.Reconcile(ctx, "web"))
	_, _ = store.Patch(ctx, replicas, "web-2", func(o *store.Object[Replica]) error { o.Finalizers = nil; return nil })
	fmt.Println(cascade.Reconcile(ctx, "web"))
	_, err = apps.Get(ctx, "web")
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
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web", Finalizers: []string{string(owner.Orphan)}})
	child := store.Object[Replica]{Key: "web-1"}
	_ = owner.SetController(&child, app.Ref("app"))
	_, _ = replicas.Create(ctx, child)

	_, _ = apps.Delete(ctx, "web") // by somebody who need not know
	fmt.Println(owner.NewCascade(apps, owner.DependentsIn(replicas, nil)).Reconcile(ctx, "web"))
	child, err = replicas.Get(ctx, "web-1")
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
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	tenants, _ := store.Open[Tenant](db, "tenant", store.Config[Tenant]{})
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})

	root, _ := tenants.Create(ctx, store.Object[Tenant]{Key: "acme"})
	app := store.Object[App]{Key: "acme/web"}
	replica := store.Object[Replica]{Key: "acme/web-1"}
	_ = owner.SetController(&app, root.Ref("tenant"))
	_ = owner.SetController(&replica, root.Ref("tenant"))
	_, _ = apps.Create(ctx, app)
	_, _ = replicas.Create(ctx, replica)

	_ = owner.Delete(ctx, tenants, "acme", owner.Foreground)
	ofTenant := func(of store.OwnerRef) store.Selector { return store.InNamespace(of.Key) }
	cascade := owner.NewCascade(tenants, owner.DependentsIn(apps, ofTenant), owner.DependentsIn(replicas, ofTenant))
	fmt.Println(cascade.Reconcile(ctx, "acme"))

	_, err = apps.Get(ctx, "acme/web")
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
