package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

// Two sources on one clock are like two kinds in one database: a version says which of two changes came first, and a caller that waits for
// the version of a change to one source can wait at an informer of the other.
func ExampleClock() {
	var clock informertest.Clock
	sites := informertest.NewSourceOn(&clock, func(name string) string { return name })
	ports := informertest.NewSourceOn(&clock, func(port int) int { return port })
	fmt.Println(sites.Put("ulm"), ports.Put(80), sites.Put("bonn"))
	for e := range sites.Watch(context.Background(), 1) {
		fmt.Println(e.Type, e.Version)
		if e.Version == clock.Version() {
			break
		}
	}
	// Output:
	// 1 2 3
	// Bookmark 2
	// Added 3
}

// Hold makes the cache stale, and breaks no watch.
func ExampleSource_Hold() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	src := informertest.NewSource(func(name string) string { return name })
	sites, err := informer.New(src, src.Key, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	<-sites.Synced()
	src.Hold()
	ulm := src.Put("ulm")
	_, ok := sites.Get("ulm")
	fmt.Println(ok)
	src.Release()
	_ = sites.WaitForVersion(ctx, ulm)
	_, ok = sites.Get("ulm")
	fmt.Println(ok)
	cancel()
	<-ended
	// Output:
	// false
	// true
}

// An outage hides a deletion from the watch. The handler learns of it all the same.
func ExampleSource() {
	type Site struct{ Name, Region string }
	src := informertest.NewSource(func(s Site) string { return s.Name })
	src.Put(Site{"ulm", "south"})

	sites, err := informer.New(src, src.Key, informer.Config{
		Name:    "sites",
		OnError: func(error) {},
		Backoff: wait.Backoff{Duration: time.Microsecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	added, deleted := make(chan Site), make(chan cache.Tombstone[string, Site])
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:    func(s Site, _ bool) { added <- s },
		OnDelete: func(d cache.Tombstone[string, Site]) { deleted <- d },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	fmt.Println("added:", <-added)

	src.Fail(errors.New("no route to host"))
	src.Delete("ulm")
	src.Compact() // the deletion is no longer in the history
	src.Fail(nil)
	d := <-deleted
	fmt.Println("deleted:", d.Object, "final state unknown:", d.FinalStateUnknown)

	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// added: {ulm south}
	// deleted: {ulm south} final state unknown: true
	// ended: <nil>
}
