package informer_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
)

// Site is the object of the examples.
type Site struct{ Name, Region string }

func siteName(s Site) string { return s.Name }

// An informer mirrors a source into a cache, and calls a handler for each change.
func Example() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})

	sites, err := informer.New(src, siteName, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := make(chan string)
	_, err = sites.AddHandler(informer.Handler[string, Site]{
		OnAdd:    func(s Site, initial bool) { calls <- fmt.Sprintf("add %v, initial: %t", s, initial) },
		OnUpdate: func(old, s Site) { calls <- fmt.Sprintf("update %v to %v", old, s) },
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- fmt.Sprintf("delete %v", d.Object) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	fmt.Println(<-calls)
	src.Put(Site{"ulm", "west"})
	fmt.Println(<-calls)
	src.Delete("ulm")
	fmt.Println(<-calls)

	cancel()
	fmt.Println(<-ended)
	// Output:
	// add {ulm south}, initial: true
	// update {ulm south} to {ulm west}
	// delete {ulm west}
	// <nil>
}

// A writer waits until the cache shows its write.
func ExampleInformer_WaitForVersion() {
	src := informertest.NewSource(siteName)
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	written := src.Put(Site{"ulm", "south"})
	if err := sites.WaitForVersion(ctx, written); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sites.Get("ulm"))
	fmt.Println(sites.Version() >= written)

	cancel()
	<-ended
	// Output:
	// {ulm south} true
	// true
}

// An index of the cache answers by something else than the key.
func ExampleInformer_Indexer() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	src.Put(Site{"kiel", "north"})
	src.Put(Site{"graz", "south"})
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	regions := cache.AddIndex(sites.Indexer(), func(s Site) []string { return []string{s.Region} })

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	if err := informer.WaitForSync(ctx, sites); err != nil {
		fmt.Println(err)
	}
	for name := range regions.All("south") {
		fmt.Println(name)
	}

	cancel()
	<-ended
	// Output:
	// ulm
	// graz
}
