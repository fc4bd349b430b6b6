package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Run is the loop of a worker. A key that fails is tried again, and is parked after its last attempt.
func ExampleQueue_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := workqueue.New(workqueue.Config[string]{
		MaxAttempts: 3,
		Hooks:       workqueue.Hooks[string]{Parked: func(string, int) { cancel() }},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	q.Add("atlantis")
	err = q.Run(ctx, 1, func(_ context.Context, item workqueue.Item[string]) error {
		fmt.Println(item.Key, "attempt", item.Attempt)
		if item.Key == "atlantis" {
			return errors.New("no such city")
		}
		return nil
	})
	fmt.Println(err, q.Parked())
	// Output:
	// berlin attempt 1
	// atlantis attempt 1
	// atlantis attempt 2
	// atlantis attempt 3
	// <nil> [atlantis]
}

// An item is a handle: an extra Done does nothing, even if another worker has the key by then.
func ExampleItem() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.AddWith("berlin", workqueue.AddOptions{Reason: "the map has changed"})
	item, err := q.Take(context.Background())
	if err != nil {
		return
	}
	defer item.Done()
	fmt.Println(item.Key, item.Attempt, item.Reasons[0].Text)
	item.Done()
	fmt.Println(q.Stats().InProcess)
	// Output:
	// berlin 1 the map has changed
	// 0
}

// Snapshot shows what the queue does, and why.
func ExampleKeyInfo() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.AddWith("paris", workqueue.AddOptions{After: time.Hour, Reason: "certificate expires"})
	q.AddWith("berlin", workqueue.AddOptions{Reason: "created"})
	q.Park("atlantis", "no such city")
	for _, info := range q.Snapshot() {
		fmt.Println(info.State, info.Key, info.Failures, info.Reasons[len(info.Reasons)-1].Text)
	}
	// Output:
	// Ready berlin 0 created
	// Delayed paris 0 certificate expires
	// Parked atlantis 1 no such city
}

// The reasons of a key are those of its last additions, with their times.
func ExampleReason() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 10 {
		q.AddWith("berlin", workqueue.AddOptions{Reason: fmt.Sprint("change ", i)})
	}
	reasons := q.Snapshot()[0].Reasons
	var first workqueue.Reason = reasons[0]
	fmt.Println(len(reasons), first.Text, time.Since(first.At) < time.Hour)
	// Output: 8 change 2 true
}

// A state has a name.
func ExampleState() {
	q, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	fmt.Println(q.Snapshot()[0].State)
	q.TryTake()
	fmt.Println(q.Snapshot()[0].State == workqueue.InProcess)
	// Output:
	// Ready
	// true
}

// Hooks count events, and Stats returns the current state.
func ExampleHooks() {
	adds, retries := 0, 0
	q, err := workqueue.New(workqueue.Config[string]{Hooks: workqueue.Hooks[string]{
		Added:   func(string, int) { adds++ },
		Delayed: func(string, time.Duration) { retries++ },
		Done:    func(key string, took time.Duration) { fmt.Println(key, took < time.Minute) },
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	q.Add("berlin") // waits already
	q.Add("paris")
	city, _ := q.TryTake()
	q.AddAfter(city.Key, time.Hour)
	city.Done()
	s := q.Stats()
	fmt.Println("adds", adds, "retries", retries, "depth", s.Ready+s.Dirty)
	// Output:
	// berlin true
	// adds 2 retries 1 depth 1
}

// Half of each delay is random, so that keys that failed together do not come back together.
func ExampleItemJitteredRateLimiter() {
	half := func() float64 { return 0.5 } // nil is the real thing
	q := workqueue.NewItemJitteredRateLimiter[string](time.Second, time.Minute, half)
	fmt.Println(q.When("a"), q.When("a"), q.When("a"))
	// Output: 750ms 1.5s 3s
}
