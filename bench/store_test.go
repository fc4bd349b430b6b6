package bench_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

const (
	stored   = 100_000 // objects in the store
	watchers = 10
)

// site is a value of the size that people store: some of it is behind pointers, so that it takes several allocations to
// copy. Port is one that takes none.
type (
	site struct {
		Image    string
		Replicas int
		Ports    []port
		Args     []string
		Env      map[string]string
	}
	port struct {
		Name   string
		Number int
	}
)

func newSite(n int) site {
	return site{
		Image:    "registry.example/web:1.2.3",
		Replicas: n,
		Ports:    []port{{"http", 80}, {"metrics", 9090}},
		Args:     []string{"-v", "-listen=:80"},
		Env:      map[string]string{"REGION": "north", "TIER": "front"},
	}
}

func newPort(n int) port { return port{"http", n} }

// BenchmarkStoreCreate measures the creation of each of size objects in an empty store without watches.
func BenchmarkStoreCreate(b *testing.B) {
	b.Run(fmt.Sprintf("size=%d/impl=site", stored), func(b *testing.B) { createAll(b, newSite) })
	b.Run(fmt.Sprintf("size=%d/impl=port", stored), func(b *testing.B) { createAll(b, newPort) })
}

func createAll[T any](b *testing.B, value func(int) T) {
	b.ReportAllocs()
	keys := makeKeys(stored)
	values := make([]T, stored)
	for i := range values {
		values[i] = value(i)
	}
	for b.Loop() {
		createEach(b, openStore[T](b, 0), keys, values)
	}
	perUnit(b, b.N*stored, "ns/write")
}

// BenchmarkStoreUpdate measures a write to one of size objects without watches: the object was read before, an int of
// its value is changed.
func BenchmarkStoreUpdate(b *testing.B) {
	b.Run(fmt.Sprintf("size=%d/impl=site", stored), func(b *testing.B) {
		updateAll(b, newSite, func(s *site, n int) { s.Replicas = n })
	})
	b.Run(fmt.Sprintf("size=%d/impl=port", stored), func(b *testing.B) {
		updateAll(b, newPort, func(p *port, n int) { p.Number = n })
	})
}

func updateAll[T any](b *testing.B, value func(int) T, change func(*T, int)) {
	b.ReportAllocs()
	s, objects := filled(b, 0, value)
	n := 0
	for b.Loop() {
		n++
		o := &objects[n%stored]
		change(&o.Value, -n)
		var err error
		if *o, err = s.Update(context.Background(), *o); err != nil {
			b.Fatal(err)
		}
	}
	perUnit(b, b.N, "ns/write")
}

// BenchmarkStoreGet measures a read of one of size objects.
func BenchmarkStoreGet(b *testing.B) {
	b.ReportAllocs()
	s, objects := filled(b, 0, newSite)
	n := 0
	for b.Loop() {
		n++
		if _, err := s.Get(context.Background(), objects[n%stored].Key); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStoreList measures a list of size objects, per object.
func BenchmarkStoreList(b *testing.B) {
	b.ReportAllocs()
	s, _ := filled(b, 0, newSite)
	for b.Loop() {
		if l, err := s.List(context.Background()); err != nil || len(l.Items) != stored {
			b.Fatal(err)
		}
	}
	perUnit(b, b.N*stored, "ns/object")
}

// BenchmarkStoreWatched measures writes to a store of size objects that watchers follow. The time counts until every watcher
// has seen every write. ns/write is that time per write, ns/event per event that a watcher has seen; with one watcher, the
// two are the same.
func BenchmarkStoreWatched(b *testing.B) {
	for _, n := range []int{1, watchers} {
		b.Run(fmt.Sprintf("size=%d/impl=site-%d", stored, n), func(b *testing.B) { watched(b, n, newSite, func(s *site, n int) { s.Replicas = n }) })
		b.Run(fmt.Sprintf("size=%d/impl=port-%d", stored, n), func(b *testing.B) { watched(b, n, newPort, func(p *port, n int) { p.Number = n }) })
	}
}

func watched[T any](b *testing.B, watchers int, value func(int) T, change func(*T, int)) {
	b.ReportAllocs()
	s, objects := filled(b, stored, value)
	ctx, stop := context.WithCancel(context.Background())
	var (
		seen    sync.WaitGroup // counts the events to come
		running sync.WaitGroup
		total   atomic.Int64
	)
	from := versionOf(b, s)
	for range watchers {
		running.Go(func() { // reads until stop ends the watch; waited for below
			for _, err := range s.Watch(ctx, from) {
				if err != nil {
					if ctx.Err() == nil {
						b.Error(err)
					}
					return
				}
				total.Add(1)
				seen.Done()
			}
		})
	}
	n := 0
	for b.Loop() {
		// As many writes as fit into the history, so that no watcher falls behind it.
		seen.Add(watchers * batch)
		for range batch {
			n++
			o := &objects[n%stored]
			change(&o.Value, -n)
			var err error
			if *o, err = s.Update(ctx, *o); err != nil {
				b.Fatal(err)
			}
		}
		seen.Wait()
	}
	perUnit(b, n, "ns/write")
	perUnit(b, n*watchers, "ns/event")
	stop()
	running.Wait()
	if total.Load() != int64(n*watchers) {
		b.Fatalf("%d events of %d writes", total.Load(), n)
	}
}

// batch is how many writes the benchmark of watchers makes in one loop.
const batch = 1000

// BenchmarkStoreCatchUp measures how long watchers take to read a history of size creations, per event.
func BenchmarkStoreCatchUp(b *testing.B) {
	b.ReportAllocs()
	s, _ := filled(b, stored, newSite)
	for b.Loop() {
		var running sync.WaitGroup
		for range watchers {
			running.Go(func() { // ends when it has read the history; waited for below
				n := 0
				for _, err := range s.Watch(context.Background(), 0) {
					if err != nil {
						b.Error(err)
						return
					}
					if n++; n == stored {
						return
					}
				}
			})
		}
		running.Wait()
	}
	perUnit(b, b.N*stored*watchers, "ns/event")
}

func openStore[T any](b *testing.B, history int) store.Store[T] {
	s, err := store.Open[T](store.NewMemory(store.MemoryConfig{History: history}), "site", store.Config[T]{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func createEach[T any](b *testing.B, s store.Store[T], keys []string, values []T) {
	for i, key := range keys {
		if _, err := s.Create(context.Background(), store.Object[T]{Key: key, Value: values[i]}); err != nil {
			b.Fatal(err)
		}
	}
}

// filled returns a store of 100,000 objects, and the objects.
func filled[T any](b *testing.B, history int, value func(int) T) (store.Store[T], []store.Object[T]) {
	s := openStore[T](b, history)
	objects := make([]store.Object[T], stored)
	for i, key := range makeKeys(stored) {
		var err error
		if objects[i], err = s.Create(context.Background(), store.Object[T]{Key: key, Value: value(i)}); err != nil {
			b.Fatal(err)
		}
	}
	return s, objects
}

func versionOf[T any](b *testing.B, s store.Store[T]) informer.Version {
	l, err := s.Select(context.Background(), store.Selector{Prefix: "none"})
	if err != nil {
		b.Fatal(err)
	}
	return l.Version
}

// perUnit reports the time per one of n units.
func perUnit(b *testing.B, n int, unit string) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), unit)
}
