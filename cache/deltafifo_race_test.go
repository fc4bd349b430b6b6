package cache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
)

// TestConcurrentConsumerConvergesToSource runs a source that changes and relists, a resync, a consumer that fails now and then,
// and a goroutine that reads the version.
func TestConcurrentConsumerConvergesToSource(t *testing.T) {
	for seed := range uint64(5) {
		x := newPods()
		f := newFIFO(x)
		truth := make(map[string]*pod)
		list := func() []*pod { return slices.Collect(maps.Values(truth)) }

		var version uint64
		var consumer, others sync.WaitGroup
		// Consumes until the queue is closed and empty; the test waits for it.
		consumer.Go(func() {
			n := 0
			bad := errors.New("bad")
			for {
				err := f.Pop(context.Background(), func(key string, deltas cache.Deltas[*pod], _ bool) error {
					if n++; n%50 == 0 {
						return bad
					}
					for d := range deltas.All() {
						if d.Object.name != key {
							t.Errorf("d.Object.name = %q, want %q", d.Object.name, key)
						}
					}
					apply(x, key, deltas)
					return nil
				})
				if err != nil && err != bad {
					if err != cache.ErrClosed {
						t.Errorf("err = %v, want %v", err, cache.ErrClosed)
					}
					return
				}
			}
		})
		done := make(chan struct{})
		// Resyncs and reads until the source is done; the test waits for it.
		others.Go(func() {
			var last uint64
			for {
				f.Resync()
				v := f.Version()
				if v < last {
					t.Errorf("the version never decreases: v = %v, want at least %v", v, last)
				}
				last = v
				f.Len()
				f.HasSynced()
				select {
				case <-done:
					return
				default:
				}
			}
		})
		r := rand.New(rand.NewPCG(seed, 6))
		if err := f.Replace(nil, 1); err != nil {
			t.Fatalf("f.Replace(nil, 1): %v", err)
		}
		for version = 2; version < 1000; version++ {
			p := &pod{name: fmt.Sprint(r.IntN(10)), n: int(version)}
			switch k := r.IntN(20); {
			case k == 0:
				for range 3 {
					delete(truth, fmt.Sprint(r.IntN(10))) // unseen by the watch
				}
				if err := f.Replace(list(), version); err != nil {
					t.Fatalf("f.Replace(list(), version): %v", err)
				}
			case k == 1:
				f.Bookmark(version)
			case k < 8:
				delete(truth, p.name)
				if err := f.Delete(p, version); err != nil {
					t.Fatalf("f.Delete(p, version): %v", err)
				}
			case truth[p.name] == nil:
				truth[p.name] = p
				if err := f.Add(p, version); err != nil {
					t.Fatalf("f.Add(p, version): %v", err)
				}
			default:
				truth[p.name] = p
				if err := f.Update(p, version); err != nil {
					t.Fatalf("f.Update(p, version): %v", err)
				}
			}
		}
		close(done)
		others.Wait()
		f.Close()
		consumer.Wait()

		// What the consumer has failed on is healed by a list.
		g := newFIFO(x)
		if err := g.Replace(list(), version); err != nil {
			t.Fatalf("g.Replace(list(), version): %v", err)
		}
		drain(t, g, x)
		if diff := cmp.Diff(truth, maps.Collect(x.All()), cmp.AllowUnexported(pod{})); diff != "" {
			t.Fatalf("maps.Collect(x.All()) mismatch (-want +got):\n%s", diff)
		}
		if got := g.Version(); got != version {
			t.Fatalf("g.Version() = %v, want %v", got, version)
		}
	}
}

// TestReplaceDoesNotMissKeyMovingToCache has a consumer that moves one key from the queue to the cache while Replace looks for it in
// both.
func TestReplaceDoesNotMissKeyMovingToCache(t *testing.T) {
	for range 200 {
		x := newPods()
		f := newFIFO(x)
		if err := f.Add(a(1), 1); err != nil {
			t.Fatalf("f.Add(a(1), 1): %v", err)
		}
		var wg sync.WaitGroup
		// Replaces once; the test waits for it.
		wg.Go(func() {
			if err := f.Replace([]*pod{b(1)}, 2); err != nil {
				t.Errorf("f.Replace([]*pod{b(1)}, 2): %v", err)
			}
		})
		drain(t, f, x)
		wg.Wait()
		drain(t, f, x)
		if got, want := names(x.All()), ([]string{"b"}); !slices.Equal(got, want) {
			t.Fatalf("names(x.All()) = %q, want %q", got, want)
		}
		if got := f.Version(); got != 2 {
			t.Fatalf("f.Version() = %v, want 2", got)
		}
	}
}
