package bench_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// delaying is a queue that can add a key later. Its limiter is the exponential one for each key alone: the bucket that
// client-go has beside it lets ten keys a second pass.
type delaying interface {
	queue
	AddAfter(key string, d time.Duration)
	AddRateLimited(key string)
	Forget(key string)
}

var delayingImplementations = []struct {
	name string
	new  func() delaying
}{
	{"setpoint", func() delaying { return must(workqueue.New(workqueue.Config[string]{})) }},
	{"clientgo", func() delaying { return clientgo.NewTypedRateLimitingQueue(itemLimiter()) }},
	{"priorityqueue", func() delaying { return priorityqueue.New[string]("") }},
}

func itemLimiter() clientgo.TypedRateLimiter[string] {
	return clientgo.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
}

// later is a queue with delayed adds, and perhaps nothing else.
type later interface {
	queue
	AddAfter(key string, d time.Duration)
}

// laterImplementation is one of delayingImplementations, or a floor. Its constructor receives the number of keys.
type laterImplementation struct {
	name string
	new  func(keys int) later
}

func laterImplementations() (all []laterImplementation) {
	for _, impl := range delayingImplementations {
		all = append(all, laterImplementation{impl.name, func(int) later { return impl.new() }})
	}
	return append(all, laterImplementation{"floor", func(int) later { return newDelayingFloor() }},
		laterImplementation{"flat", func(keys int) later { return newFlat(keys) }})
}

// maxDelay is the longest delay of BenchmarkQueueAddAfter.
const maxDelay = 50 * time.Millisecond

// BenchmarkQueueAddAfter measures AddAfter of size distinct keys on a new queue, with delays from 1 to 50 ms, until a worker has received
// and finished all of them. One operation is all of that; ns/key is the relevant figure. It cannot be less than the longest delay divided
// by size, 167 ns.
func BenchmarkQueueAddAfter(b *testing.B) {
	const size = 300_000
	keys, delays := makeKeys(size), makeDelays(size)
	for _, impl := range laterImplementations() {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				q := impl.new(size)
				n += addLater(q, keys, delays)
				if left := q.Len(); left != 0 {
					b.Fatalf("%d keys wait, want none", left)
				}
				q.ShutDown()
			}
			reportPer(b, n, "ns/key")
		})
	}
}

func TestDelayedKeysAreHandedOutOnce(t *testing.T) {
	for _, impl := range laterImplementations() {
		t.Run(impl.name, func(t *testing.T) {
			q := impl.new(100)
			defer q.ShutDown()
			assert.Equal(t, 100, addLater(q, makeKeys(100), makeDelays(100)))
			assert.Zero(t, q.Len())
		})
	}
}

// addLater adds each key after its delay. It returns the number of keys when a worker has received and finished all of them.
func addLater(q later, keys []string, delays []time.Duration) int {
	got := 0
	var worker sync.WaitGroup
	// The worker. It ends when it has got as many keys as there are; addLater waits for it.
	worker.Go(func() {
		for range keys {
			key, _ := q.Get()
			q.Done(key)
			got++
		}
	})
	for i, key := range keys {
		q.AddAfter(key, delays[i])
	}
	worker.Wait()
	return got
}

// makeDelays returns n delays in random order, the same each time.
func makeDelays(n int) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2))
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = time.Millisecond + time.Duration(random.Int64N(int64(maxDelay-time.Millisecond)))
	}
	return delays
}

// BenchmarkQueueAddRateLimited measures the cost of counting a failure, over size keys that have all failed before. For a limiter, that is
// a call of When. The queue of setpoint counts by itself. There it is the difference between AddRateLimited and an AddAfter that finds the
// queue in the same state, in turn over all keys.
//
// One operation is a round; ns/key is the relevant figure.
func BenchmarkQueueAddRateLimited(b *testing.B) {
	const size = 100_000
	keys := makeKeys(size)
	limiters := []struct {
		name string
		new  func() workqueue.RateLimiter[string]
	}{
		{"setpoint-limiter", workqueue.DefaultControllerRateLimiter[string]},
		{"clientgo", func() workqueue.RateLimiter[string] { return clientgo.DefaultTypedControllerRateLimiter[string]() }},
		{"clientgo-item", func() workqueue.RateLimiter[string] { return itemLimiter() }},
	}
	b.Run(fmt.Sprintf("size=%d/impl=setpoint", size), func(b *testing.B) { benchmarkCounting(b, keys) })
	for _, impl := range limiters {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			limiter := impl.new()
			for range failures {
				for _, key := range keys {
					limiter.When(key)
				}
			}
			n := 0
			for b.Loop() {
				for _, key := range keys {
					limiter.When(key)
				}
				n += size
			}
			reportPer(b, n, "ns/key")
			b.ReportMetric(0, "ns/op")
			if got, want := limiter.NumRequeues(keys[size-1]), failures+n/size; got != want {
				b.Fatalf("%d failures, want %d", got, want)
			}
		})
	}
}

// failures is the number of failures that lead to the longest delay, 1000 s, after which nothing becomes due in a benchmark.
const failures = 20

func benchmarkCounting(b *testing.B, keys []string) {
	const constant = 1000 * time.Second
	limiter := workqueue.NewItemExponentialFailureRateLimiter[string](constant, constant)
	limited, after := must(workqueue.New(workqueue.Config[string]{RateLimiter: limiter})), must(workqueue.New(workqueue.Config[string]{}))
	defer limited.ShutDown()
	defer after.ShutDown()
	var with, without time.Duration
	n := 0
	for b.Loop() {
		for _, key := range keys { // a failure during a backoff does not count
			limited.Forget(key)
			after.Cancel(key)
		}
		start := time.Now()
		for _, key := range keys {
			limited.AddRateLimited(key)
		}
		middle := time.Now()
		for _, key := range keys {
			after.AddAfter(key, constant)
		}
		without += time.Since(middle)
		with += middle.Sub(start)
		n += len(keys)
	}
	b.ReportMetric(float64(with-without)/float64(n), "ns/key")
	b.ReportMetric(0, "ns/op")
	if got := limited.NumRequeues(keys[0]); got != 1 {
		b.Fatalf("%d failures, want 1", got)
	}
	for _, q := range []*workqueue.Queue[string]{limited, after} {
		if s := q.Stats(); s.Delayed != len(keys) || s.Ready != 0 {
			b.Fatalf("%+v: want all keys delayed", s)
		}
	}
}
