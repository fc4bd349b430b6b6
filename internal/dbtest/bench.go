package dbtest

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
)

const image = "registry.example/app:"

// Image is a value of 210 bytes for benchmarks.
const Image = image + image + image + image + image + image + image + image + image + image

// Rows defines the flag -rows of the benchmarks of a backend.
func Rows() *int {
	return flag.Int("rows", 100_000, "how many objects BenchmarkList lists; BenchmarkDrain reads a tenth as many changes")
}

// EachWrite resets the timer of b and calls write b.N times, in a number of goroutines. It passes the number of the goroutine, from 0,
// and the number of the call, from 1. The first error fails b and ends its goroutine. EachWrite reports the writes per second.
func EachWrite(b *testing.B, writers int, write func(ctx context.Context, writer, i int) error) {
	var g sync.WaitGroup
	var next atomic.Int64
	b.ResetTimer()
	for w := range writers {
		g.Go(func() { // ends after the last write
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := write(b.Context(), w, int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

// UpdateApps measures updates of objects in db by a number of writers, each of its own object.
func UpdateApps(b *testing.B, db backend.Backend, writers int) {
	b.Helper()
	s := Apps(b, db)
	objects := make([]store.Object[App], writers)
	for w := range objects {
		objects[w] = must[store.Object[App]](b)(s.Create(b.Context(), store.Object[App]{Key: fmt.Sprint(w)}))
	}
	EachWrite(b, writers, func(ctx context.Context, w, i int) (err error) {
		objects[w].Value.Image = fmt.Sprint(Image, i)
		objects[w], err = s.Update(ctx, objects[w])
		return err
	})
}

// EachRead calls read as often as b wants. Each call must read n rows, and returns how many it has read. EachRead reports the rows per
// second.
func EachRead(b *testing.B, n int, read func() (int, error)) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if got, err := read(); err != nil || got != n {
			b.Fatalf("%d rows were read, want %d: %v", got, n, err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// List measures lists of a source that has n objects.
func List[T any](b *testing.B, source informer.ListWatcher[T], n int) {
	b.Helper()
	EachRead(b, n, func() (int, error) {
		l, err := source.List(b.Context())
		return len(l.Items), err
	})
}

// Drain measures watches that read n changes after a version, like one that resumes after a pause.
func Drain[T any](b *testing.B, source informer.ListWatcher[T], after informer.Version, n int) {
	b.Helper()
	EachRead(b, n, func() (got int, err error) {
		for e, err := range source.Watch(b.Context(), after) {
			if err != nil {
				return got, err
			}
			if e.Type != informer.Bookmark {
				got++
			}
			if got == n {
				break
			}
		}
		return got, nil
	})
}

// Latency measures the time from the return of write to a receive from seen. Each write must cause one send of the current time to
// seen. It reports the median, the 99th percentile, and the maximum in microseconds. The first write is not measured.
func Latency(b *testing.B, seen <-chan time.Time, write func(i int) error) {
	b.Helper()
	send := func(i int) {
		if err := write(i); err != nil {
			b.Fatal(err)
		}
	}
	send(0)
	<-seen
	var all []time.Duration
	for b.Loop() {
		send(len(all) + 1)
		written := time.Now()
		all = append(all, max((<-seen).Sub(written), 0)) // the reader may be faster than the reply to the writer
	}
	slices.Sort(all)
	for name, percent := range map[string]int{"µs-p50": 50, "µs-p99": 99, "µs-max": 100} {
		at := (len(all)*percent+99)/100 - 1 // at least that many are at or below it
		b.ReportMetric(float64(all[at].Nanoseconds())/1000, name)
	}
}

// AppLatency measures the [Latency] from an update of an object through writer to the handler of an informer of reader. The two may be
// one handle of a database, or two.
func AppLatency(b *testing.B, reader, writer backend.Backend) {
	b.Helper()
	s := Apps(b, writer)
	o := must[store.Object[App]](b)(s.Create(b.Context(), store.Object[App]{Key: "a"}))
	HandlerLatency(b, Apps(b, reader), store.Key[App], func(i int) (err error) {
		o.Value.Image = fmt.Sprint(i)
		o, err = s.Update(b.Context(), o)
		return err
	})
}

// HandlerLatency measures the [Latency] from write to the handler of an informer of a source with one object. write updates the object.
func HandlerLatency[K comparable, T any](b *testing.B, source informer.ListWatcher[T], key func(T) K, write func(i int) error) {
	b.Helper()
	inf, err := informer.New(source, key, informer.Config{})
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan time.Time, 1)
	_, err = inf.AddHandler(informer.Handler[K, T]{
		OnAdd:    func(T, bool) { seen <- time.Now() },
		OnUpdate: func(_, _ T) { seen <- time.Now() },
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- inf.Run(ctx) }() // ends with stop
	defer func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	}()
	<-seen // the object as listed
	Latency(b, seen, write)
}
