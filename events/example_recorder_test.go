package events_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/store"
)

// Repeats are one event.
func ExampleRecorder() {
	rec, err := events.NewRecorder(events.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := store.Ref{Kind: "app", Key: "web"}
	rec.Normal(web, "Scaled", "3 replicas, were 2")
	for range 5 {
		rec.Warning(web, "NoCapacity", "no machine has 4 cores free")
	}
	for _, e := range rec.Events() {
		fmt.Println(e.Type, e.About.Key, e.Reason, e.Count, e.Message)
	}
	// Output:
	// Normal web Scaled 1 3 replicas, were 2
	// Warning web NoCapacity 5 no machine has 4 cores free
}

// Recorded events can also be logged.
func ExampleConfig() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	rec, err := events.NewRecorder(events.Config{Size: 1000, Sink: events.SlogSink(logger)})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec.Warning(store.Ref{Kind: "app", Key: "web", UID: "u1"}, "NoCapacity", "no machine has 4 cores free")
	// Output:
	// level=WARN msg=event kind=app key=web uid=u1 reason=NoCapacity message="no machine has 4 cores free" count=1
}

// A sink of your own sees repeats by their count.
func ExampleEvent() {
	rec, err := events.NewRecorder(events.Config{Sink: func(e events.Event) {
		if e.Count == 1 {
			fmt.Println(e.Type, e.Reason)
		}
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	web := store.Ref{Kind: "app", Key: "web"}
	rec.Normal(web, "Started", "")
	rec.Normal(web, "Started", "")
	// Output: Normal Started
}

// Without a UID, a reference stands for all lives of a key.
func ExampleRef() {
	rec, err := events.NewRecorder(events.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rec.Normal(store.Ref{Kind: "app", Key: "web", UID: "u1"}, "Deleted", "")
	rec.Normal(store.Ref{Kind: "app", Key: "web", UID: "u2"}, "Created", "")
	for _, e := range rec.EventsFor(store.Ref{Kind: "app", Key: "web"}) {
		fmt.Println(e.About.UID, e.Reason)
	}
	// Output:
	// u1 Deleted
	// u2 Created
}

func ExampleType() {
	fmt.Println(events.Normal, events.Warning)
	// Output: Normal Warning
}
