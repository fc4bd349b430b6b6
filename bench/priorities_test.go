package bench_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/setpoint-go/setpoint/workqueue"
)

// high is the highest of the three priorities in use, 0 the lowest.
const high = 2

// prioritized is a queue that adds with a priority.
type prioritized struct {
	queue
	addWith func(key string, priority int)
}

// priorityImplementations are those that know priorities, and setpoint without any, for comparison.
var priorityImplementations = []struct {
	name string
	new  func() prioritized
}{
	{"setpoint", func() prioritized {
		q := must(workqueue.New(workqueue.Config[string]{}))
		return prioritized{q, func(key string, priority int) {
			q.AddWith(key, workqueue.AddOptions{Priority: priority})
		}}
	}},
	{"setpoint-fifo", func() prioritized {
		q := must(workqueue.New(workqueue.Config[string]{}))
		return prioritized{q, func(key string, _ int) { q.AddWith(key, workqueue.AddOptions{}) }}
	}},
	{"priorityqueue", func() prioritized {
		q := priorityqueue.New[string]("")
		priorities := [high + 1]int{0, 1, high} // it takes a pointer, which must not cost an allocation each time
		return prioritized{q, func(key string, priority int) {
			q.AddWithOpts(priorityqueue.AddOpts{Priority: &priorities[priority]}, key)
		}}
	}},
}

// BenchmarkQueuePriorities measures Get, Done and Add with a priority of one key, one after the other in one goroutine,
// while size keys of three priorities wait. All but 2% of them have the highest priority, so that each implementation
// goes round nearly all keys, as without priorities.
func BenchmarkQueuePriorities(b *testing.B) {
	forEachPriority(b, func(b *testing.B, q prioritized, keys []string) {
		for i, key := range keys {
			priority := high
			if rest := i % 100; rest < high {
				priority = rest
			}
			q.addWith(key, priority)
		}
		q.Len() // makes the priority queue do its deferred work
		for b.Loop() {
			key, _ := q.Get()
			q.Done(key)
			q.addWith(key, high)
		}
		if n := q.Len(); n != len(keys) {
			b.Fatalf("%d keys wait, want %d", n, len(keys))
		}
	})
}

// BenchmarkQueuePriorityBurst measures a burst of size keys, a third of each priority, which are all added and then handed
// out and done, in one goroutine. One operation is a burst; ns/key is the relevant figure.
func BenchmarkQueuePriorityBurst(b *testing.B) {
	forEachPriority(b, func(b *testing.B, q prioritized, keys []string) {
		n := 0
		for b.Loop() {
			burst(q, keys)
			n += len(keys)
		}
		reportPer(b, n, "ns/key")
		if n := q.Len(); n != 0 {
			b.Fatalf("%d keys wait, want none", n)
		}
	})
}

func TestPrioritiesGoFirst(t *testing.T) {
	for _, impl := range priorityImplementations {
		t.Run(impl.name, func(t *testing.T) {
			q := impl.new()
			defer q.ShutDown()
			want := []string{"c", "f", "b", "e", "a", "d"}
			if impl.name == "setpoint-fifo" {
				want = []string{"a", "b", "c", "d", "e", "f"}
			}
			assert.Equal(t, want, burst(q, []string{"a", "b", "c", "d", "e", "f"}))
		})
	}
}

// burst adds keys with their priorities and returns the keys that it then gets. The slice for that is one allocation per burst, for
// each implementation.
func burst(q prioritized, keys []string) []string {
	for i, key := range keys {
		q.addWith(key, i%(high+1))
	}
	q.Len() // the priority queue now does what it has put off
	order := make([]string, len(keys))
	for i := range order {
		order[i], _ = q.Get()
		q.Done(order[i])
	}
	return order
}

func forEachPriority(b *testing.B, run func(b *testing.B, q prioritized, keys []string)) {
	const size = 100_000
	keys := makeKeys(size)
	for _, impl := range priorityImplementations {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			b.ReportAllocs()
			q := impl.new()
			defer q.ShutDown()
			run(b, q, keys)
		})
	}
}

// reportPer reports the time per each of n.
func reportPer(b *testing.B, n int, unit string) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), unit)
}
