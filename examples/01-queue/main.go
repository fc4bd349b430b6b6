// Command 01-queue works through a queue of tenants. However often a tenant is added while it waits, it is processed
// once. The urgent tenant goes first. The queue retries failures after a backoff, and gives up on a tenant that fails too often.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/setpoint-go/setpoint/workqueue"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	q, err := workqueue.New(workqueue.Config[string]{
		MaxAttempts: 3,
		Hooks: workqueue.Hooks[string]{Parked: func(tenant string, attempts int) {
			fmt.Printf("%s: given up after %d attempts\n", tenant, attempts)
			stop()
		}},
	})
	check(err)

	// A key is a name, never the object. So it waits once, and its worker reads the current state.
	for _, tenant := range []string{"acme", "hooli", "acme", "initech", "acme"} {
		q.Add(tenant)
	}
	q.AddWith("umbrella", workqueue.AddOptions{Priority: 1, Reason: "a customer is waiting"})
	fmt.Println(q.Len(), "tenants wait")

	again := true
	check(q.Run(ctx, 1, func(_ context.Context, item workqueue.Item[string]) error {
		if item.Key == "hooli" {
			fmt.Printf("%s: attempt %d failed\n", item.Key, item.Attempt)
			return errors.New("no route to host") // so the key is added again after a backoff
		}
		fmt.Printf("%s: done\n", item.Key)
		if item.Key == "acme" && again {
			q.Add("acme") // it changes while it is being processed: no other worker gets it, and it comes back
			again = false
		}
		return nil
	}))

	for _, info := range q.Snapshot() {
		fmt.Printf("%s is %s: %s\n", info.Key, info.State, info.Reasons[0].Text)
	}
	q.Add("hooli") // a change revives it, with all of its attempts
	fmt.Println(q.Len(), "tenant waits")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
