package owner_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// A child says whose it is; when its owner is gone, it is collected.
func ExampleCollector() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})

	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	child := store.Object[Replica]{Key: "web-1"}
	fmt.Println(owner.SetController(&child, app.Ref("app")))
	_, _ = replicas.Create(ctx, child)

	// The work of a reconcile loop over the keys of replicas.
	collector := owner.NewCollector(replicas, owner.AliveIn(apps))
	fmt.Println(collector.Collect(ctx, "web-1"))
	_, _ = apps.Delete(ctx, "web")
	_, _ = apps.Create(ctx, store.Object[App]{Key: "web"}) // another life of the key
	fmt.Println(collector.Collect(ctx, "web-1"))
	// Output:
	// <nil>
	// false <nil>
	// true <nil>
}

// Children may have owners of several kinds: choose by the kind of the reference.
func ExampleAliveIn() {
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	jobs, _ := store.Open[App](db, "job", store.Config[App]{})
	inApps, inJobs := owner.AliveIn(apps), owner.AliveIn(jobs)
	alive := func(ctx context.Context, ref store.OwnerRef) (bool, error) {
		switch ref.Kind {
		case "app":
			return inApps(ctx, ref)
		case "job":
			return inJobs(ctx, ref)
		default:
			return true, nil // not ours to judge
		}
	}
	job, _ := jobs.Create(context.Background(), store.Object[App]{Key: "backup"})
	fmt.Println(alive(context.Background(), job.Ref("job")))
	// Output: true <nil>
}

// A change of a child concerns its owner.
func ExampleControlledBy() {
	child := store.Object[Replica]{Key: "web-1"}
	_ = owner.SetController(&child, store.OwnerRef{Kind: "app", Key: "web", UID: "u1"})
	appsOf := owner.ControlledBy[Replica]("app")
	child.Owners = append(child.Owners, store.OwnerRef{Kind: "disk", Key: "ssd-1", UID: "u2"})
	fmt.Println(appsOf(child), owner.ControllerUID(child), owner.OwnerUIDs(child))
	// Output: [web] [u1] [u1 u2]
}

// Any store is a place to look for owners.
func ExampleOwners() {
	var owners owner.Owners[App]
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	owners, _ = store.Open[App](db, "app", store.Config[App]{})
	_, err = owners.Get(context.Background(), "web")
	fmt.Println(err)
	// Output: store: get app "web": object not found
}

// An app adopts the orphan that matches; the child of another owner stays where it is.
func ExampleChildren() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	apps, _ := store.Open[App](db, "app", store.Config[App]{})
	replicas, _ := store.Open[Replica](db, "replica", store.Config[Replica]{})
	app, _ := apps.Create(ctx, store.Object[App]{Key: "web"})
	orphan, _ := replicas.Create(ctx, store.Object[Replica]{Key: "web-1"})

	var by owner.Claimant = owner.ClaimantOf(apps, app)
	var children owner.Children[store.Object[Replica]] = owner.ChildrenIn(replicas, app.Ref("app"))
	mine, err := children.Claim(ctx, by, []store.Object[Replica]{orphan}, func(store.Object[Replica]) bool { return true })
	fmt.Println(len(mine), mine[0].Owners[0].Key, err)
	// Output: 1 web <nil>
}

// Machine is an object of somebody else, whose tag says whose it is.
type Machine struct{ Name, Tag string }

// Anything can be claimed, here machines that a provider rents out: four small functions say how.
func ExampleChildren_Claim() {
	const me = "uid-of-web"
	machines := owner.Children[Machine]{
		Controller: func(m Machine) (uid string, ok bool) { return m.Tag, m.Tag != "" },
		Deleting:   func(Machine) bool { return false },
		Adopt: func(_ context.Context, m Machine) (Machine, error) {
			fmt.Println("adopt", m.Name) // a call of the provider, which fails if the tag is not empty any more
			m.Tag = me
			return m, nil
		},
		Release: func(_ context.Context, m Machine) error {
			fmt.Println("release", m.Name)
			return nil
		},
	}
	by := owner.Claimant{UID: me, Alive: func(context.Context) (bool, error) { return true, nil }}
	mine, err := machines.Claim(context.Background(), by,
		[]Machine{{"web-1", me}, {"web-2", ""}, {"web-3", "uid-of-shop"}, {"db-1", me}, {"db-2", ""}},
		func(m Machine) bool { return strings.HasPrefix(m.Name, "web-") })
	fmt.Println(mine, err)
	// Output:
	// adopt web-2
	// release db-1
	// [{web-1 uid-of-web} {web-2 uid-of-web}] <nil>
}

// What was made for an object is taken away before the object goes.
func ExampleFinalizer() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
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
