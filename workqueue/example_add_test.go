package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Keys that a person waits for go before those of a full sync; if a person requests a key of low priority, its priority rises.
func ExampleAddOptions() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range []string{"blog", "shop", "wiki"} {
		q.AddWith(app, workqueue.AddOptions{Priority: -1, Reason: "sync"})
	}
	q.AddWith("wiki", workqueue.AddOptions{Reason: "changed"})
	q.AddWith("mail", workqueue.AddOptions{After: time.Hour, Priority: 5})

	for item, ok := q.TryTake(); ok; item, ok = q.TryTake() {
		fmt.Println(item.Key)
	}
	// Output:
	// wiki
	// blog
	// shop
}

// A key has one wake-up: the earlier of two, unless the new one replaces the old one.
func ExampleAddOptions_replace() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := func(hours time.Duration, replace bool) {
		q.AddWith("lease", workqueue.AddOptions{After: hours * time.Hour, Replace: replace})
		fmt.Println(time.Until(q.Snapshot()[0].Next).Round(time.Hour))
	}
	in(5, false)
	in(7, false) // later, so it does not count
	in(6, true)
	// Output:
	// 5h0m0s
	// 5h0m0s
	// 6h0m0s
}

// The groups take turns, and none has more than two keys in process: a customer with many sites does not delay another.
func ExampleConfig() {
	q, err := workqueue.New(workqueue.Config[string]{
		Group: func(site string) string {
			customer, _, _ := strings.Cut(site, "/")
			return customer
		},
		GroupLimit: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, site := range []string{"big/1", "big/2", "big/3", "big/4", "small/1"} {
		q.Add(site)
	}
	for item, ok := q.TryTake(); ok; item, ok = q.TryTake() {
		fmt.Println(item.Key)
	}
	fmt.Println(q.Len(), "wait for one of big to be done")
	// Output:
	// big/1
	// small/1
	// big/2
	// 2 wait for one of big to be done
}

// A burst of events about one object is one piece of work, which begins when the burst is over.
func ExampleConfig_debounce() {
	queue, err := workqueue.New(workqueue.Config[string]{
		Debounce:      20 * time.Millisecond, // the quiet time
		DebounceLimit: time.Minute,           // a burst that never ends does not delay the key for longer
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 100 {
		queue.Add("ulm")
	}
	item, err := queue.Take(context.Background())
	fmt.Println(item.Key, err)
	queue.Done(item.Key)
	fmt.Println("ready:", queue.Len())
	// Output:
	// ulm <nil>
	// ready: 0
}

// A certificate that is renewed by hand needs no renewal tomorrow. No code needs to remember that and check at the time.
func ExampleQueue_Cancel() {
	queue, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	queue.AddAfter("example.com", 24*time.Hour)
	fmt.Println("waiting:", len(queue.Snapshot()))
	fmt.Println("canceled:", queue.Cancel("example.com"))
	fmt.Println("waiting:", len(queue.Snapshot()))
	fmt.Println("canceled:", queue.Cancel("example.com"))
	// Output:
	// waiting: 1
	// canceled: true
	// waiting: 0
	// canceled: false
}
