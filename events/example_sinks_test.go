package events_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

// A slow receiver gets its events from Run, which a manager calls in stage manager.Outer. Run delivers all queued events before it
// returns.
func ExampleRecorder_Run() {
	rec, err := events.NewRecorder(events.Config{Write: func(ctx context.Context, e events.Event) error {
		fmt.Println("sent:", e.Reason, e.Count)
		return nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := store.Ref{Kind: "app", Key: "web"}
	rec.Normal(web, "Scaled", "3 replicas, were 2")
	for range 5 {
		rec.Warning(web, "NoCapacity", "no machine has 4 cores free")
	}

	ctx, stop := context.WithCancel(context.Background())
	stop() // for the example; a manager calls Run, and ends it last
	fmt.Println(rec.Run(ctx))
	// Output:
	// sent: Scaled 1
	// sent: NoCapacity 5
	// <nil>
}

// A sink that hangs costs events, which are counted, but does not block the caller.
func ExampleQueueStats() {
	down := func(context.Context, events.Event) error { return errors.New("down") }
	rec, err := events.NewRecorder(events.Config{Burst: -1, Write: down, QueueSize: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 250 {
		rec.Normal(store.Ref{Kind: "app", Key: fmt.Sprint(n)}, "Created", "")
	}
	var stats events.QueueStats = rec.Stats().Write
	fmt.Println("waiting:", stats.Waiting, "dropped:", stats.Dropped)
	// Output: waiting: 100 dropped: 150
}

// Events are kept as objects of a store, where others can list and watch them.
func ExampleAbout() {
	db := store.NewMemory(store.MemoryConfig{})
	rec, err := events.NewRecorder(events.Config{Store: db, Max: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec.Normal(store.Ref{Kind: "app", Key: "web", UID: "u1"}, "Scaled", "3 replicas, were 2")
	rec.Normal(store.Ref{Kind: "app", Key: "shop", UID: "u2"}, "Created", "")
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_ = rec.Run(ctx) // delivers the queued events

	kept, _ := store.Open(db, "Event", store.Config[events.Event]{})
	list, _ := kept.Select(context.Background(), events.About(store.Ref{Kind: "app", Key: "web"}))
	for _, o := range list.Items {
		fmt.Println(o.Value.About.Key, o.Value.Reason, o.Value.Message)
	}
	// Output: web Scaled 3 replicas, were 2
}

// An object that floods is cut off, and counted.
func ExampleStats() {
	rec, err := events.NewRecorder(events.Config{Burst: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 100 {
		rec.Warning(store.Ref{Kind: "app", Key: "web"}, "Failed", fmt.Sprint("attempt ", n))
	}
	rec.Normal(store.Ref{Kind: "app", Key: "shop"}, "Created", "")
	stats := rec.Stats()
	fmt.Println("recorded:", stats.Recorded, "limited:", stats.Limited)
	// Output: recorded: 6 limited: 95
}
