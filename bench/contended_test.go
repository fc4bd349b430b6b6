package bench_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
)

// BenchmarkQueueProducersWorkers measures producers that Add and workers that Get and Done, concurrently, over 1,000 keys.
// One operation is an Add. A queue that is slow to hand out drops more Adds as duplicates, so that its operations look
// cheap: ns/item is the time per key that was handed out. The size is producers x workers.
func BenchmarkQueueProducersWorkers(b *testing.B) {
	keys := makeKeys(1_000)
	for _, size := range []struct{ producers, workers int }{{1, 1}, {4, 16}, {16, 64}} {
		for _, impl := range implementations {
			b.Run(fmt.Sprintf("size=%dx%d/impl=%s", size.producers, size.workers, impl.name), func(b *testing.B) {
				b.ReportAllocs()
				q := impl.new()
				defer q.ShutDown()
				stops := makeStops(size.workers)
				b.ResetTimer()
				items := exchange(q, b.N, size.producers, keys, stops, nil)
				b.StopTimer()
				if q.Len() != 0 || items == 0 || items > b.N {
					b.Fatalf("%d items handed out of %d added, %d wait", items, b.N, q.Len())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(items), "ns/item")
			})
		}
	}
}

func TestProducersAndWorkersHandOutEveryKey(t *testing.T) {
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			q := impl.new()
			defer q.ShutDown()
			keys := makeKeys(100)
			var mu sync.Mutex
			seen := make(map[string]bool)
			items := exchange(q, 10_000, 4, keys, makeStops(8), func(key string) {
				mu.Lock()
				defer mu.Unlock()
				seen[key] = true
			})
			assert.Zero(t, q.Len())
			assert.Len(t, seen, len(keys))
			assert.LessOrEqual(t, items, 10_000)
		})
	}
}

// exchange adds n keys with the given number of producers, and hands them out to as many workers as there are stops. It returns the number
// of items that were handed out, after all of them are done and all goroutines have ended. If see is not nil, it is called with each item.
func exchange(q queue, n, producers int, keys, stops []string, see func(key string)) int {
	var workers, adders sync.WaitGroup
	var items atomic.Int64
	for range stops {
		// A worker. It ends with the first stop that it gets; exchange waits for it.
		workers.Go(func() {
			got := 0
			for {
				key, _ := q.Get()
				q.Done(key)
				if isStop(key) {
					break
				}
				got++
				if see != nil {
					see(key)
				}
			}
			items.Add(int64(got))
		})
	}
	for p := range producers {
		// A producer. It ends when it has added its share; exchange waits for it.
		adders.Go(func() {
			i := p * len(keys) / producers
			for range share(n, p, producers) {
				q.Add(keys[i])
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
	adders.Wait()
	for _, stop := range stops {
		q.Add(stop)
	}
	workers.Wait()
	// Keys that were added while in process are queued after the stops.
	rest := 0
	for q.Len() > 0 {
		key, _ := q.Get()
		q.Done(key)
		rest++
		if see != nil {
			see(key)
		}
	}
	return int(items.Load()) + rest
}

// share is the part of n that belongs to the p-th producer.
func share(n, p, of int) int { return (p+1)*n/of - p*n/of }

// makeStops returns n keys, each of which ends one worker.
func makeStops(n int) []string {
	stops := make([]string, n)
	for i := range stops {
		stops[i] = fmt.Sprintf("#stop-%d", i)
	}
	return stops
}

func isStop(key string) bool { return key[0] == '#' }
