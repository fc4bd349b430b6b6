package store_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/store"
)

// Service is a value with a status.
type Service struct {
	Replicas int
	Status   ServiceStatus `store:"status"`
}

// ServiceStatus is what a controller reports of a Service.
type ServiceStatus struct{ Ready int }

// The generation increases when the desired state changes, not with reported status.
func ExampleStore_status() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	services, _ := store.Open[Service](db, "service", store.Config[Service]{})
	o, _ := services.Create(ctx, store.Object[Service]{Key: "shop/web", Value: Service{Replicas: 1}})

	o.Value.Replicas = 3
	o, _ = services.Update(ctx, o)
	fmt.Println(o.Value, "generation", o.Generation)

	o.Value = Service{Replicas: 99, Status: ServiceStatus{Ready: 3}}
	o, err := services.UpdateStatus(ctx, o)
	fmt.Println(o.Value, "generation", o.Generation, err)
	// Output:
	// {3 {0}} generation 2
	// {3 {3}} generation 2 <nil>
}

// Objects are found by namespace and by labels.
func ExampleSelector() {
	ctx := context.Background()
	db := store.NewMemory(store.MemoryConfig{})
	sites, _ := store.Open[Site](db, "site", store.Config[Site]{})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop/web", Labels: map[string]string{"tier": "front"}})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "shop/db", Labels: map[string]string{"tier": "back"}})
	_, _ = sites.Create(ctx, store.Object[Site]{Key: "blog/web", Labels: map[string]string{"tier": "front"}})

	front := store.Selector{Prefix: "shop/"}
	front.Labels = []store.Requirement{{Label: "tier", Values: []string{"front"}}}
	list, err := sites.Select(ctx, front)
	for _, o := range list.Items {
		fmt.Println(o.Key, err)
	}
	// Output: shop/web <nil>
}

func ExampleRequirement() {
	notBack := store.Selector{Labels: []store.Requirement{{Label: "tier", Values: []string{"back"}, Not: true}}}
	fmt.Println(notBack.Matches("web", map[string]string{"tier": "front"}))
	fmt.Println(notBack.Matches("db", map[string]string{"tier": "back"}))
	fmt.Println(notBack.Matches("plain", nil))
	// Output:
	// true
	// false
	// true
}

// A write of the status does not change the desired state.
func ExampleGenerationChanged() {
	asked := store.Object[Site]{UID: "u1", Generation: 1, Version: 1}
	reported, scaled, another := asked, asked, asked
	reported.Version = 2
	scaled.Version, scaled.Generation = 2, 2
	another.Version, another.UID = 3, "u2"
	fmt.Println(store.GenerationChanged(asked, reported), store.GenerationChanged(asked, scaled),
		store.GenerationChanged(asked, another))
	// Output: false true true
}
