package bench_test

import (
	"fmt"
	"time"

	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// PriorityQueue is a queue of setpoint as controller-runtime's priorityqueue.PriorityQueue.
type PriorityQueue[T comparable] struct{ *workqueue.Queue[T] }

func (q PriorityQueue[T]) AddWithOpts(o priorityqueue.AddOpts, items ...T) {
	opts := workqueue.AddOptions{After: o.After, RateLimited: o.RateLimited, PrioritySet: true}
	if o.Priority != nil {
		opts.Priority = *o.Priority
	}
	for _, item := range items {
		q.AddWith(item, opts)
	}
}

func (q PriorityQueue[T]) Add(item T) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

func (q PriorityQueue[T]) AddRateLimited(item T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

func (q PriorityQueue[T]) GetWithPriority() (key T, priority int, shutdown bool) {
	item, shutdown := q.GetItem()
	return item.Key, item.Priority, shutdown
}

// ShutDown hands out no more keys, not even ready ones, as controller-runtime's.
func (q PriorityQueue[T]) ShutDown() {
	q.Pause()
	q.Queue.ShutDown()
}

// NewQueue is for the option NewQueue of a controller.
func NewQueue[T comparable](name string, limiter clientgo.TypedRateLimiter[T]) clientgo.TypedRateLimitingInterface[T] {
	q, err := workqueue.New(workqueue.Config[T]{Name: name, RateLimiter: limiter, Timestamps: true})
	if err != nil {
		panic(err) // no value of name or limiter causes one
	}
	return PriorityQueue[T]{q}
}

// controller-runtime finds the methods of its priority queue, and uses them.
func Example_priorityQueue() {
	limiter := clientgo.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
	q, ok := NewQueue("pages", limiter).(priorityqueue.PriorityQueue[string])
	fmt.Println("a priority queue:", ok)

	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, "listed", "listed and changed")
	q.Add("listed and changed")
	key, priority, _ := q.GetWithPriority()
	fmt.Println(key, priority)

	q.ShutDown()
	_, _, shutdown := q.GetWithPriority()
	fmt.Println("shutdown:", shutdown, "left:", q.Len())
	// Output:
	// a priority queue: true
	// listed and changed 0
	// shutdown: true left: 1
}
