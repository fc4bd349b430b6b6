package leaderelect_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
)

// Hooks feed counters and histograms.
func ExampleHooks() {
	elector, err := leaderelect.New(leaderelect.Config{
		Store:            struct{ leaderelect.LeaseStore }{memlease.New()}, // hides the watch, whose reports replace reads or cause them
		Key:              "shop",
		Logger:           slog.New(slog.DiscardHandler),
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error { return nil },
		Hooks: leaderelect.Hooks{
			Request: func(operation string, _ time.Duration, err error) { fmt.Println(operation, "failed:", err != nil) },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.RunOnce(context.Background()))
	// Output:
	// get failed: true
	// create failed: false
	// update failed: false
	// <nil>
}

// Stats is for a status page.
func ExampleStats() {
	var elector *leaderelect.Elector
	elector, err := leaderelect.New(leaderelect.Config{
		Store:  memlease.New(),
		Key:    "shop",
		Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(context.Context, *leaderelect.Leadership) error {
			var s leaderelect.Stats = elector.Stats()
			fmt.Println("leading:", s.Leading, "term:", s.Term, "terms:", s.Terms, "lost:", s.Lost)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.RunOnce(context.Background()))
	fmt.Println("leading:", elector.Stats().Leading)
	// Output:
	// leading: true term: 1 terms: 1 lost: 0
	// <nil>
	// leading: false
}
