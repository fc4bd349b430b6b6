package events_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

// A sink that takes its time gets its events through a queue. What waits is delivered before Run returns.
func ExampleQueue() {
	queue, err := events.NewQueue(func(ctx context.Context, e events.Event) error {
		fmt.Println("sent:", e.Reason, e.Count)
		return nil
	}, events.QueueConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec, err := events.NewRecorder(events.Config{Sink: queue.Put})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := events.Ref{Kind: "app", Key: "web"}
	rec.Normal(web, "Scaled", "3 replicas, were 2")
	for range 5 {
		rec.Warning(web, "NoCapacity", "no machine has 4 cores free")
	}

	ctx, stop := context.WithCancel(context.Background())
	stop() // for the example; else at the end of the program
	fmt.Println(queue.Run(ctx))
	// Output:
	// sent: Scaled 1
	// sent: NoCapacity 5
	// <nil>
}

// A sink that does not answer costs events, and nobody's time.
func ExampleQueueStats() {
	queue, _ := events.NewQueue(func(context.Context, events.Event) error { return errors.New("down") },
		events.QueueConfig{Size: 100})
	rec, err := events.NewRecorder(events.Config{Burst: -1, Sink: queue.Put})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 250 {
		rec.Normal(events.Ref{Kind: "app", Key: fmt.Sprint(n)}, "Created", "")
	}
	stats := queue.Stats()
	fmt.Println("waiting:", stats.Waiting, "dropped:", stats.Dropped)
	// Output: waiting: 100 dropped: 150
}

// QueueConfig says how much may wait, and how long a stop may take.
func ExampleQueueConfig() {
	_, err := events.NewQueue(func(context.Context, events.Event) error { return nil },
		events.QueueConfig{Size: -1, Logger: slog.New(slog.DiscardHandler)})
	fmt.Println(err)
	// Output: events: new queue: QueueConfig.Size is -1, must not be negative
}

// Events are kept as objects of a store, where others can list and watch them.
func ExampleStoreSink() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, _ := store.Open[events.Event](db, "event", store.Config[events.Event]{})
	sink, err := events.NewStoreSink(kept, events.StoreConfig{Max: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue, _ := events.NewQueue(sink.Write, events.QueueConfig{})
	rec, err := events.NewRecorder(events.Config{Sink: queue.Put})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec.Normal(events.Ref{Kind: "app", Key: "web", UID: "u1"}, "Scaled", "3 replicas, were 2")
	rec.Normal(events.Ref{Kind: "app", Key: "shop", UID: "u2"}, "Created", "")

	stopped, stop := context.WithCancel(ctx)
	stop()
	_ = queue.Run(stopped) // delivers what waits

	list, _ := kept.Select(ctx, events.About(events.Ref{Kind: "app", Key: "web"}))
	for _, o := range list.Items {
		fmt.Println(o.Value.About.Key, o.Value.Reason, o.Value.Message)
	}
	// Output: web Scaled 3 replicas, were 2
}

// A store that holds too many events is swept with the first write.
func ExampleStoreConfig() {
	ctx := context.Background()
	db, err := store.NewMemory(store.MemoryConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, _ := store.Open[events.Event](db, "event", store.Config[events.Event]{})
	sink, _ := events.NewStoreSink(kept, events.StoreConfig{Max: 10})
	rec, err := events.NewRecorder(events.Config{Burst: -1, Sink: func(e events.Event) { _ = sink.Write(ctx, e) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 1000 {
		rec.Normal(events.Ref{Kind: "app", Key: fmt.Sprint(n)}, "Created", "")
	}
	list, _ := kept.List(ctx)
	fmt.Println(len(list.Items) <= 10)
	// Output: true
}

// An object that floods is cut off, and counted.
func ExampleStats() {
	rec, err := events.NewRecorder(events.Config{Burst: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	for n := range 100 {
		rec.Warning(events.Ref{Kind: "app", Key: "web"}, "Failed", fmt.Sprint("attempt ", n))
	}
	rec.Normal(events.Ref{Kind: "app", Key: "shop"}, "Created", "")
	stats := rec.Stats()
	fmt.Println("recorded:", stats.Recorded, "limited:", stats.Limited)
	// Output: recorded: 6 limited: 95
}
