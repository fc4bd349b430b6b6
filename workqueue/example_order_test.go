package workqueue_test

import (
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

// A key has one wake-up. A policy says which of two counts.
func ExamplePolicy() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	in := func(hours time.Duration, policy workqueue.Policy) {
		q.AddWith("lease", workqueue.AddOptions{After: hours * time.Hour, Policy: policy})
		fmt.Println(time.Until(q.Snapshot()[0].Next).Round(time.Hour))
	}
	in(5, workqueue.Earliest)
	in(7, workqueue.Earliest) // later, so it does not count
	in(7, workqueue.Latest)
	in(6, workqueue.Replace)
	// Output:
	// 5h0m0s
	// 5h0m0s
	// 7h0m0s
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
