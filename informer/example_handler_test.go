package informer_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/wait"
)

// A handler with a filter sees an object appear and disappear that is there all the time.
func ExampleHandler() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "west"})
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	calls := make(chan string)
	south, err := sites.AddHandler(informer.Handler[string, Site]{
		Filter:   func(s Site) bool { return s.Region == "south" },
		OnAdd:    func(s Site, _ bool) { calls <- "add " + s.Name },
		OnDelete: func(d cache.Tombstone[string, Site]) { calls <- "delete " + d.Key },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	<-south.Synced()
	src.Put(Site{"ulm", "south"})
	fmt.Println(<-calls)
	src.Put(Site{"ulm", "north"})
	fmt.Println(<-calls)

	cancel()
	<-ended
	// Output:
	// add ulm
	// delete ulm
}

// A handler that joins late gets the present objects first. After its removal it gets no more calls.
func ExampleRegistration() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	src.Put(Site{"kiel", "north"})
	sites, err := informer.New(src, siteName, informer.Config{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()
	<-sites.Synced()

	late, err := sites.AddHandler(informer.Handler[string, Site]{
		OnAdd: func(s Site, initial bool) { fmt.Println(s.Name, initial) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-late.Synced()
	fmt.Println(late.Name(), "has synced")

	<-late.Remove()
	written := src.Put(Site{"graz", "south"})
	fmt.Println(sites.WaitForVersion(ctx, written))

	cancel()
	<-ended
	// Output:
	// ulm true
	// kiel true
	// sites handler 1 has synced
	// <nil>
}

// A handler that looks for one object removes itself when it has found it. The informer runs already, so the callback is given
// its registration by a channel.
func ExampleRegistration_Remove() {
	src := informertest.NewSource(siteName)
	src.Put(Site{"ulm", "south"})
	src.Put(Site{"kiel", "north"})
	sites, err := informer.New(src, siteName, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	self, found := make(chan informer.Registration, 1), make(chan Site)
	reg, err := sites.AddHandler(informer.Handler[string, Site]{OnAdd: func(s Site, _ bool) {
		found <- s
		(<-self).Remove() // no more calls
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	self <- reg
	fmt.Println(<-found)
	written := src.Put(Site{"graz", "south"})
	fmt.Println(sites.WaitForVersion(ctx, written))

	cancel()
	<-ended
	// Output:
	// {ulm south}
	// <nil>
}

// Both an informer and a handler are a Syncer. The error names what was waited for in vain.
func ExampleWaitForSync() {
	var waitFor []informer.Syncer
	for _, name := range []string{"sites", "tenants"} {
		src := informertest.NewSource(siteName)
		inf, err := informer.New(src, siteName, informer.Config{Name: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		waitFor = append(waitFor, inf) // and none of them runs
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("startup took too long"))
	fmt.Println(informer.WaitForSync(ctx, waitFor...))
	// Output: informer: wait for sync of sites, tenants: startup took too long
}

// Errors are reported, and the informer continues by itself.
func ExampleConfig() {
	src := informertest.NewSource(siteName)
	src.Fail(errors.New("no route to host"))
	errs := make(chan error, 1)
	sites, err := informer.New(src, siteName, informer.Config{
		Name:    "sites",
		Backoff: wait.Backoff{Duration: 1},
		OnError: func(err error) {
			src.Fail(nil) // an example has no patience
			errs <- err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sites.Run(ctx) }()

	fmt.Println(<-errs)
	fmt.Println(informer.WaitForSync(ctx, sites))

	cancel()
	<-ended
	// Output:
	// informer: list sites: no route to host
	// <nil>
}
