package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/workqueue"
)

// A worker takes keys until the queue is drained. A key that fails comes back after a backoff.
func ExampleQueue() {
	q, err := workqueue.New(workqueue.Config[string]{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	q.Add("paris")
	q.Add("berlin") // waits already

	work := func(site string) error {
		if site == "paris" && q.NumRequeues(site) == 0 {
			return errors.New("no connection")
		}
		return nil
	}
	for done := 0; done < 2; {
		item, err := q.Take(context.Background())
		if err != nil {
			break
		}
		if err := work(item.Key); err != nil {
			fmt.Println(item.Key, err)
			q.AddRateLimited(item.Key)
		} else {
			fmt.Println(item.Key, "done")
			q.Forget(item.Key)
			done++
		}
		item.Done()
	}
	// Output:
	// berlin done
	// paris no connection
	// paris done
}

// A server that replies "try again in an hour" chooses the delay. The attempt still counts as a failure, and two are allowed.
func ExampleQueue_AddWith() {
	q, err := workqueue.New(workqueue.Config[string]{MaxAttempts: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	for range 2 {
		site, _ := q.TryTake()
		again := q.AddWith(site.Key, workqueue.AddOptions{RateLimited: true, After: time.Hour, Reason: "quota"})
		site.Done()
		for _, k := range q.Snapshot() {
			fmt.Println(again, k.State, k.Failures, k.Reasons[0].Text)
		}
		q.Add(site.Key) // an attempt before the hour is over: its failure does not count
	}
	fmt.Println(q.NumRequeues("berlin"))
	// Output:
	// true Delayed 1 quota
	// true Delayed 1 quota
	// 2
}

// Drain ends the intake and waits for the workers, as long as its context allows.
func ExampleQueue_Drain() {
	q, err := workqueue.New(workqueue.Config[int]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 3 {
		q.Add(i)
	}
	go func() {
		for {
			key, shutdown := q.Get()
			if shutdown {
				return
			}
			q.Done(key)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(q.Drain(ctx), q.Len())
	// Output: <nil> 0
}

// Stats counts the keys in each state, and Config names the queue in the log.
func ExampleStats() {
	q, err := workqueue.New(workqueue.Config[string]{Name: "sites"})
	if err != nil {
		fmt.Println(err)
		return
	}
	q.Add("berlin")
	q.AddAfter("paris", time.Hour)
	s := q.Stats()
	fmt.Println(s.Ready, s.Delayed)
	// Output: 1 1
}

// Consumers accept one of the interfaces; a Queue implements all three.
func ExampleRateLimitingInterface() {
	queue, err := workqueue.New(workqueue.Config[string]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var plain workqueue.Interface[string] = queue
	_, delaying := plain.(workqueue.DelayingInterface[string])
	_, limiting := plain.(workqueue.RateLimitingInterface[string])
	fmt.Println(delaying, limiting)
	// Output: true true
}

func ExampleItemExponentialFailureRateLimiter() {
	var r workqueue.RateLimiter[string] = workqueue.NewItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	fmt.Println(r.When("a"), r.When("a"), r.When("a"), r.When("b"))
	// Output: 1s 2s 4s 1s
}

func ExampleItemFastSlowRateLimiter() {
	r := workqueue.NewItemFastSlowRateLimiter[string](time.Millisecond, time.Minute, 2)
	fmt.Println(r.When("a"), r.When("a"), r.When("a"))
	// Output: 1ms 1ms 1m0s
}

// A token bucket, in addition to the delays of each key, limits the rate of all keys together. The longest delay counts.
func ExampleMaxOfRateLimiter() {
	r := workqueue.NewMaxOfRateLimiter(
		workqueue.DefaultControllerRateLimiter[string](),
		&workqueue.BucketRateLimiter[string]{Limiter: rate.NewLimiter(rate.Every(time.Hour), 1)},
	)
	fmt.Println(r.When("a"), r.When("b") > 59*time.Minute)
	// Output: 5ms true
}

func ExampleWithMaxWaitRateLimiter() {
	r := workqueue.NewWithMaxWaitRateLimiter(workqueue.NewItemFastSlowRateLimiter[string](time.Second, time.Hour, 1), time.Minute)
	fmt.Println(r.When("a"), r.When("a"))
	// Output: 1s 1m0s
}

// Totals are what a queue has done since it was made, for an adapter to a monitoring system.
func ExampleQueue_Totals() {
	q, err := workqueue.New(workqueue.Config[string]{Timestamps: true})
	if err != nil {
		panic(err)
	}
	q.Add("berlin")
	q.Add("berlin") // is ready already
	q.Add("rome")
	item, _ := q.TryTake()
	item.Done()

	var totals workqueue.Totals = q.Totals()
	var waited workqueue.Histogram = totals.Waited
	fmt.Println(totals.Added, "added,", waited.Count(), "dispatched,", totals.Worked.Count(), "done")
	fmt.Println("bounds from", waited.Bounds[0], "to", waited.Bounds[len(waited.Bounds)-1])

	// Output:
	// 2 added, 1 dispatched, 1 done
	// bounds from 10ns to 16m40s
}
