package bench_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

const million = 1_000_000

// BenchmarkQueueMemoryKept measures the memory that a queue keeps after size keys were added, handed out, and done. The
// keys themselves do not count.
func BenchmarkQueueMemoryKept(b *testing.B) {
	measureMemory(b, million, 1<<20, "MiB", func(q delaying, keys []string) {
		for _, key := range keys {
			q.Add(key)
		}
		for range keys {
			key, _ := q.Get()
			q.Done(key)
		}
	})
}

// BenchmarkQueueMemoryKeptRateLimited is BenchmarkQueueMemoryKept with keys that were added by AddRateLimited, and forgotten
// when they were handed out.
func BenchmarkQueueMemoryKeptRateLimited(b *testing.B) {
	measureMemory(b, million, 1<<20, "MiB", func(q delaying, keys []string) {
		for _, key := range keys {
			q.AddRateLimited(key)
		}
		for range keys {
			key, _ := q.Get()
			q.Forget(key)
			q.Done(key)
		}
	})
}

// BenchmarkQueueDelayedKeys measures the memory of a key that is due in an hour, with size of them. The
// keys themselves do not count.
func BenchmarkQueueDelayedKeys(b *testing.B) {
	measureMemory(b, million, million, "B/key", func(q delaying, keys []string) {
		for _, key := range keys {
			q.AddAfter(key, time.Hour)
		}
		q.Len() // makes the priority queue do its deferred work
	})
}

// BenchmarkQueueIdle measures the memory and the goroutines of a queue that has nothing to do, after size keys have gone
// through it: none, or one. The stacks of the goroutines do not count as memory.
func BenchmarkQueueIdle(b *testing.B) {
	for _, size := range []int{0, 1} {
		keys := makeKeys(size)
		for _, impl := range delayingImplementations {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				qs := make([]delaying, 1_000)
				var bytes, goroutines, n int
				for b.Loop() {
					running := runtime.NumGoroutine()
					before := heap()
					for i := range qs {
						qs[i] = impl.new()
						for _, key := range keys {
							qs[i].Add(key)
							key, _ = qs[i].Get()
							qs[i].Done(key)
						}
					}
					bytes += heap() - before
					goroutines += runtime.NumGoroutine() - running
					n += len(qs)
					for _, q := range qs {
						q.ShutDown()
					}
					clear(qs)
					settle(b, running)
				}
				b.ReportMetric(float64(bytes)/float64(n), "B/queue")
				b.ReportMetric(float64(goroutines)/float64(n), "goroutines/queue")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// measureMemory reports, in units of the given number of bytes, the memory of a new queue after use.
func measureMemory(b *testing.B, size, bytes int, unit string, use func(q delaying, keys []string)) {
	keys := makeKeys(size)
	for _, impl := range delayingImplementations {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			var kept, n int
			for b.Loop() {
				running := runtime.NumGoroutine()
				before := heap()
				q := impl.new()
				use(q, keys)
				kept += heap() - before
				n++
				q.ShutDown() // and keeps q alive until here
				settle(b, running)
			}
			b.ReportMetric(float64(kept)/float64(n)/float64(bytes), unit)
			b.ReportMetric(0, "ns/op")
		})
	}
	runtime.KeepAlive(keys)
}

// heap returns the bytes on the heap that are in use.
func heap() int {
	runtime.GC()
	runtime.GC() // objects freed by the first one may have had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// settle waits for the goroutines of queues that were shut down, so that they do not count in the next measurement. There is nothing else
// to wait for.
func settle(b *testing.B, running int) {
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > running; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d goroutines, want %d", runtime.NumGoroutine(), running)
		}
	}
}
