// Command 05-expectations starts servers from a cache that lags behind. A controller that trusts the cache starts some of them
// twice. A controller that waits until the cache shows its own writes does not. There are three ways to know when that is.
package main

import (
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/expectations"
)

const (
	site = "berlin" // the key that is reconciled
	want = 3        // servers
)

// world has the servers, and a cache that hears of them one by one.
type world struct {
	servers int // that were started, which is the version of the world as well
	cached  int // that the cache shows
}

func (w *world) start() (version uint64) {
	w.servers++
	return uint64(w.servers)
}

// book is what a controller keeps of its own doing.
type book struct {
	satisfied func() bool          // whether the cache shows all of it
	before    func(server int)     // a server is about to be started
	after     func(version uint64) // it was, and the world has this version
	observed  func(server int)     // the cache has it
}

// run looks at the cache a few times, starts what is missing there, and lets the cache hear of one server between two looks.
func run(name string, b book) {
	var w world
	for range want + 1 {
		if b.satisfied() {
			for range want - w.cached {
				b.before(w.servers + 1)
				b.after(w.start())
			}
		}
		if w.cached < w.servers {
			w.cached++
			b.observed(w.cached)
		}
	}
	fmt.Printf("%s: %d servers, %d wanted\n", name, w.servers, want)
}

func main() {
	nothing := func(int) {}
	run("careless", book{func() bool { return true }, nothing, func(uint64) {}, nothing})

	// As many events as there were acts: for any source.
	counted, err := expectations.NewCounted(expectations.Config[string]{})
	if err != nil {
		log.Fatal(err)
	}
	run("counted", book{
		satisfied: func() bool { return counted.SatisfiedExpectations(site) },
		before:    func(int) { counted.ExpectCreations(site, 1) }, // first expect, then act: the event may be fast
		after:     func(uint64) {},
		observed:  func(int) { counted.CreationObserved(site) },
	})

	// The events of just these servers: one that is told twice, or of another server, does not count.
	tracked, err := expectations.NewTracked[string, int](expectations.Config[string]{})
	if err != nil {
		log.Fatal(err)
	}
	run("tracked", book{
		satisfied: func() bool { return tracked.SatisfiedExpectations(site) },
		before:    func(server int) { tracked.ExpectCreations(site, server) },
		after:     func(uint64) {},
		observed:  func(server int) { tracked.CreationObserved(site, server) },
	})

	// The version that the last write has returned: nothing is counted, so nothing is miscounted.
	versions, err := expectations.NewVersions[string](expectations.Config[string]{})
	if err != nil {
		log.Fatal(err)
	}
	run("versions", book{
		satisfied: func() bool { return versions.SatisfiedExpectations(site) },
		before:    nothing,
		after:     func(version uint64) { versions.ExpectVersion(site, version) },
		observed:  func(server int) { versions.VersionObserved(uint64(server)) },
	})
}
