package bench_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// queue is the common interface of the implementations.
type queue interface {
	Add(key string)
	Len() int
	Get() (key string, shutdown bool)
	Done(key string)
	ShutDown()
}

// implementation is a queue as a controller gets it by default, without metrics.
type implementation struct {
	name string
	new  func() queue
}

var implementations = []implementation{
	{"setpoint", func() queue { return must(workqueue.New(workqueue.Config[string]{})) }},
	{"clientgo", func() queue {
		return clientgo.NewTypedRateLimitingQueue(clientgo.DefaultTypedControllerRateLimiter[string]())
	}},
	{"priorityqueue", func() queue { return priorityqueue.New[string]("") }},
	{"floor", func() queue { return newFloor() }},
}

// BenchmarkQueueCycle measures Get, Done and Add of one key, one after the other in one goroutine, while size keys wait.
func BenchmarkQueueCycle(b *testing.B) {
	forEach(b, func(b *testing.B, q queue, _ []string) {
		for b.Loop() {
			cycle(q)
		}
	})
}

// BenchmarkQueueDuplicateAdd measures Add of a key that already waits, while size keys wait. The priority queue puts an Add into a buffer
// and does the work later. Len makes it do the work, so that it is counted. Len is called only every thousandth time, so that it is not
// measured itself.
func BenchmarkQueueDuplicateAdd(b *testing.B) {
	forEach(b, func(b *testing.B, q queue, keys []string) {
		i, n := 0, 0
		for b.Loop() {
			q.Add(keys[i])
			if i++; i == len(keys) {
				i = 0
			}
			if n++; n == 1000 {
				n = 0
				q.Len()
			}
		}
		q.Len()
	})
}

// forEach runs a benchmark on each implementation, filled to each size, and checks that no key was lost or doubled.
func forEach(b *testing.B, run func(b *testing.B, q queue, keys []string)) {
	for _, size := range []int{1, 100, 100_000} {
		keys := makeKeys(size)
		for _, impl := range implementations {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				b.ReportAllocs()
				q := impl.new()
				defer q.ShutDown()
				fill(q, keys)
				run(b, q, keys)
				if n := q.Len(); n != size {
					b.Fatalf("%d keys wait, want %d", n, size)
				}
			})
		}
	}
}

func TestEveryImplementationDoesTheSameWork(t *testing.T) {
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			keys := makeKeys(100)
			q := impl.new()
			defer q.ShutDown()
			fill(q, keys)
			fill(q, keys)
			require.Equal(t, len(keys), q.Len(), "a waiting key is queued once")
			var order []string
			for range 2 * len(keys) {
				order = append(order, cycle(q))
			}
			assert.Equal(t, append(keys, keys...), order, "first in, first out")
			assert.Equal(t, len(keys), q.Len())
		})
	}
}

// cycle is the work of a worker on a key that is added again.
func cycle(q queue) string {
	key, _ := q.Get()
	q.Done(key)
	q.Add(key)
	return key
}

func fill(q queue, keys []string) {
	for _, key := range keys {
		q.Add(key)
	}
	q.Len() // makes the priority queue do its deferred work
}

func makeKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace/name-%06d", i)
	}
	return keys
}
