package expectations_test

import (
	"fmt"

	"github.com/setpoint-go/setpoint/expectations"
)

// A controller wants three children, and its cache shows none yet. It counts what it has created, and leaves the key
// alone until the cache has shown as many.
func ExampleCounted() {
	exp := expectations.NewCounted(expectations.Config[string]{Name: "sites"})
	reconcile := func(shown int) {
		if !exp.SatisfiedExpectations("web") {
			fmt.Println("shown", shown, "- wait")
			return
		}
		missing := 3 - shown
		fmt.Println("shown", shown, "- create", missing)
		exp.ExpectCreations("web", missing) // first expect, then act
	}
	reconcile(0)
	reconcile(0)
	exp.CreationObserved("web") // from the handler of the cache
	exp.CreationObserved("web")
	reconcile(2)
	exp.LowerExpectations("web", 1, 0) // the third could not be created
	reconcile(2)
	// Output:
	// shown 0 - create 3
	// shown 0 - wait
	// shown 2 - wait
	// shown 2 - create 1
}

// A deletion is often reported twice: when it begins, and when it is done. It counts once.
func ExampleTracked() {
	exp := expectations.NewTracked[string, string](expectations.Config[string]{})
	exp.ExpectDeletions("web", "web-1", "web-2")
	exp.DeletionObserved("web", "web-1")
	exp.DeletionObserved("web", "web-1")
	fmt.Println(exp.SatisfiedExpectations("web"))
	exp.DeletionObserved("web", "web-2")
	fmt.Println(exp.SatisfiedExpectations("web"))
	// Output:
	// false
	// true
}

// Where the source gives out the identities, the event may be faster than the answer to the write.
func ExampleTracked_Begin() {
	exp := expectations.NewTracked[string, string](expectations.Config[string]{})
	exp.Begin("web")
	exp.CreationObserved("web", "id-7") // from the handler of the cache
	exp.ExpectCreations("web", "id-7")  // what the write has returned
	exp.End("web")
	fmt.Println(exp.SatisfiedExpectations("web"))
	// Output: true
}

// A write returns the version of the source after it. The key waits for a cache that has reached that version, and the code that holds it
// back is notified when it has.
func ExampleVersions() {
	exp := expectations.NewVersions(expectations.Config[string]{})
	stop := exp.Notify(func(key string) { fmt.Println(key, "goes on") })
	defer stop()
	exp.ExpectVersion("web", 17)
	fmt.Println(exp.SatisfiedExpectations("web"))
	fmt.Println(exp.SatisfiedExpectations("other"))
	exp.VersionObserved(16) // called by the code that updates the cache
	exp.VersionObserved(18)
	fmt.Println(exp.SatisfiedExpectations("web"))
	// Output:
	// false
	// true
	// web goes on
	// true
}

// A key whose expectations have expired can be retried at once: here it goes back to the queue.
func ExampleConfig() {
	var queue []string
	exp := expectations.NewVersions(expectations.Config[string]{
		TTL:       1, // a nanosecond: it expires at once
		OnExpired: func(key string) { queue = append(queue, key) },
	})
	exp.ExpectVersion("web", 17)
	for !exp.SatisfiedExpectations("web") {
	}
	fmt.Println(queue)
	// Output: [web]
}

// The writes of an API return no version. The key waits until the cache shows another state than the one that the write was based on.
func ExampleValues() {
	cache := map[string]int{"web": 3} // servers by site, as of the last poll
	exp := expectations.NewValues(expectations.Config[string]{})
	reconcile := func() {
		if !exp.SatisfiedExpectations("web") {
			fmt.Println("wait")
			return
		}
		before := cache["web"]
		fmt.Println("from", before, "servers to", before+1)
		exp.ExpectValue("web", func() bool { return cache["web"] != before })
	}
	reconcile()
	reconcile()
	cache["web"] = 4 // the next poll
	exp.ValuesObserved()
	reconcile()
	// Output:
	// from 3 servers to 4
	// wait
	// from 4 servers to 5
}
