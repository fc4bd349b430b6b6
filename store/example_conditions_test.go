package store_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Conditions are in the status of a value, and tell people and programs how far a controller has come.
func ExampleConditions() {
	var status store.Conditions
	status.Set(store.Condition{Type: "Ready", Reason: "Starting", Message: "1 of 3 servers answers", Generation: 4})
	fmt.Println(status.AllOK(4, "Ready"))

	changed := status.Set(store.Condition{Type: "Ready", OK: true, Generation: 4})
	ready, _ := status.Get("Ready")
	fmt.Println(changed, ready.OK, ready.Reason, !ready.Since.IsZero())
	fmt.Println(status.AllOK(4, "Ready"))
	// Output:
	// false
	// true true  true
	// true
}

func ExampleCondition() {
	var status store.Conditions
	ready := store.Condition{Type: "Ready", OK: true}
	fmt.Println(status.Set(ready), status.Set(ready)) // the second one says nothing new
	// Output: true false
}

// CreateOrUpdate works whether the object exists or not, and writes nothing if nothing has changed.
func ExampleCreateOrUpdate() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open(db, "site", store.Config[Site]{})
	for _, replicas := range []int{1, 3, 3} {
		site, err := store.CreateOrUpdate(ctx, sites, "shop", func(o *store.Object[Site]) error {
			o.Value.Replicas = replicas
			return nil
		})
		fmt.Println(site.Version, site.Value.Replicas, err)
	}
	// Output:
	// 1 1 <nil>
	// 2 3 <nil>
	// 2 3 <nil>
}
