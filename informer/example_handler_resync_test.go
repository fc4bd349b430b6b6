package informer_test

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
)

// A resync calls a handler again for each object, so that it can look at the world once more. It is distinct from a change.
func ExampleHandler_onResync() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	sites, err := informer.New(src, src.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:        func(s Site, _ bool) { fmt.Println("add", s.Name) },
		OnUpdate:     func(_, s Site) { fmt.Println("update", s.Name) },
		OnResync:     func(s Site) { fmt.Println("resync", s.Name); cancel() },
		ResyncPeriod: 10 * time.Millisecond, // hours, more likely
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(sites.Run(ctx))
	// Output:
	// add ulm
	// resync ulm
	// <nil>
}

// Source returns the source given to New, so code that has the informer can use methods of that kind of source.
func ExampleInformer_Source() {
	list := func(context.Context) ([]Site, error) { return []Site{{"ulm", "south"}}, nil }
	src, err := poll.New(list, siteName, poll.Config[Site]{Interval: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(src, siteName, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}

	if nudged, ok := sites.Source().(interface{ Nudge() }); ok {
		nudged.Nudge() // something has changed: the next poll is now, not in an hour
		fmt.Println("nudged")
	}
	// Output: nudged
}
