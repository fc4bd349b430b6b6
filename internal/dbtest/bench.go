package dbtest

import (
	"context"
	"fmt"
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

// EachWrite resets the timer of b and calls write b.N times, in a number of goroutines. It passes the number of the goroutine, from 0,
// and the number of the call, from 1. The first error fails b and ends its goroutine.
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

// Latency measures the time from the return of write to a receive from seen. Each write must cause one send of the current time to
// seen. It reports the mean and the maximum in microseconds. The first write is not measured.
func Latency(b *testing.B, seen <-chan time.Time, write func(i int) error) {
	b.Helper()
	send := func(i int) {
		if err := write(i); err != nil {
			b.Fatal(err)
		}
	}
	send(0)
	<-seen
	var longest, all time.Duration
	n := 0
	for b.Loop() {
		n++
		send(n)
		written := time.Now()
		latency := max((<-seen).Sub(written), 0) // the reader may be faster than the reply to the writer
		longest, all = max(longest, latency), all+latency
	}
	b.ReportMetric(float64(longest.Microseconds()), "µs-max")
	b.ReportMetric(float64(all.Microseconds())/float64(n), "µs-mean")
}

// HandlerLatency measures the [Latency] from an update through writer to the handler of an informer of reader. The two may be one
// handle of a database, or two.
func HandlerLatency(b *testing.B, reader, writer backend.Backend) {
	b.Helper()
	inf, err := informer.New(Apps(b, reader), store.Key[App], informer.Config{})
	if err != nil {
		b.Fatal(err)
	}
	seen := make(chan time.Time, 1)
	_, err = inf.AddHandler(informer.Handler[string, store.Object[App]]{
		OnAdd:    func(store.Object[App], bool) { seen <- time.Now() },
		OnUpdate: func(_, _ store.Object[App]) { seen <- time.Now() },
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
	s := Apps(b, writer)
	o := must[store.Object[App]](b)(s.Create(ctx, store.Object[App]{Key: "a"}))
	<-seen
	Latency(b, seen, func(i int) (err error) {
		o.Value.Image = fmt.Sprint(i)
		o, err = s.Update(ctx, o)
		return err
	})
}
