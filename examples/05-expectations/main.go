// Command 05-expectations starts servers from a cache that lags behind. A controller that trusts the cache starts some of them
// twice. A controller that waits until the cache shows its own writes does not. There are three ways to know when that is the
// case.
package main

import (
	"fmt"

	"github.com/setpoint-go/setpoint/expectations"
)

const (
	site = "berlin" // the key to reconcile
	want = 3        // servers
)

// world has the servers, and a cache that learns of them one by one.
type world struct {
	servers int // started so far; also the version of the world
	cached  int // shown by the cache
}

func (w *world) start() (version uint64) {
	w.servers++
	return uint64(w.servers)
}

// book is how a controller tracks its own writes.
type book struct {
	satisfied func() bool          // whether the cache shows all writes
	before    func(server int)     // called before a server is started
	after     func(version uint64) // called after that, with the version of the world
	observed  func(server int)     // called when the cache has the server
}

// run reads the cache a few times, starts the servers that are missing there, and lets the cache learn of one server between
// two reads.
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

	// Count events: this works for any source.
	counted := expectations.NewCounted(expectations.Config[string]{})
	run("counted", book{
		satisfied: func() bool { return counted.SatisfiedExpectations(site) },
		before:    func(int) { counted.ExpectCreations(site, 1) }, // first expect, then act: the event may be faster than the call
		after:     func(uint64) {},
		observed:  func(int) { counted.CreationObserved(site) },
	})

	// Track the events of these servers: a repeated event, or one of another server, does not count.
	tracked := expectations.NewTracked[string, int](expectations.Config[string]{})
	run("tracked", book{
		satisfied: func() bool { return tracked.SatisfiedExpectations(site) },
		before:    func(server int) { tracked.ExpectCreations(site, server) },
		after:     func(uint64) {},
		observed:  func(server int) { tracked.CreationObserved(site, server) },
	})

	// Wait for the version that the last write returned: without counting, nothing can be miscounted.
	versions := expectations.NewVersions[string](expectations.Config[string]{})
	run("versions", book{
		satisfied: func() bool { return versions.SatisfiedExpectations(site) },
		before:    nothing,
		after:     func(version uint64) { versions.ExpectVersion(site, version) },
		observed:  func(server int) { versions.VersionObserved(uint64(server)) },
	})
}
