package informer_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// A handler that keeps a history, or counts, needs a call for each change. Here, a handler without EveryEvent would get the
// addition of the site and then its deletion.
func ExampleHandler_everyEvent() {
	src := informertest.NewSource(siteName)
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls, busy := make(chan string), make(chan struct{})
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		EveryEvent: true,
		OnAdd: func(s Site, _ bool) {
			<-busy
			calls <- "add " + s.Name + " in the " + s.Region
		},
		OnUpdate: func(old, new Site) { calls <- "move it from the " + old.Region + " to the " + new.Region },
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- "delete it in the " + d.Object.Region },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	<-sites.Synced()

	src.Put(Site{"ulm", "south"})
	src.Put(Site{"ulm", "west"})
	src.Put(Site{"ulm", "north"})
	deleted := src.Delete("ulm")
	fmt.Println(sites.WaitForVersion(ctx, deleted)) // all of it waits for the handler
	close(busy)
	for range 4 {
		fmt.Println(<-calls)
	}

	cancel()
	<-ended
	// Output:
	// <nil>
	// add ulm in the south
	// move it from the south to the west
	// move it from the west to the north
	// delete it in the north
}
