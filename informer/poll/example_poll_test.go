package poll_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
)

type Site struct{ Name, Region string }

func siteName(s Site) string { return s.Name }

// inventory stands for an API that can only be listed.
type inventory struct {
	mu    sync.Mutex
	sites map[string]Site
}

func (v *inventory) list(context.Context) ([]Site, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.sites)), nil
}

func (v *inventory) change(f func(map[string]Site)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f(v.sites)
}

// Polling makes a source of anything that can be listed. Code that knows of a change need not wait for the next poll.
func ExampleSource_Nudge() {
	inv := &inventory{sites: map[string]Site{"ulm": {"ulm", "south"}}}
	src, err := poll.New(inv.list, siteName, poll.Config[Site]{
		Interval: -1, // an example has no patience: it nudges
		Equal:    func(a, b Site) bool { return a == b },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := make(chan string)
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:    func(s Site, _ bool) { calls <- "add " + s.Name },
		OnUpdate: func(old, s Site) { calls <- "update " + s.Name + " from " + old.Region + " to " + s.Region },
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- "delete " + d.Key },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	fmt.Println(<-calls)

	inv.change(func(sites map[string]Site) { sites["ulm"] = Site{"ulm", "west"} })
	src.Nudge()
	fmt.Println(<-calls)
	inv.change(func(sites map[string]Site) { delete(sites, "ulm") })
	src.Nudge()
	fmt.Println(<-calls)

	cancel()
	<-ended
	// Output:
	// add ulm
	// update ulm from south to west
	// delete ulm
}
