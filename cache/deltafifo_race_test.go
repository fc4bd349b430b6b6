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

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
						assert.Equal(t, key, d.Object.name)
					}
					apply(x, key, deltas)
					return nil
				})
				if err != nil && err != bad {
					assert.Equal(t, cache.ErrClosed, err)
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
				assert.GreaterOrEqual(t, v, last, "the version never decreases")
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
		require.NoError(t, f.Replace(nil, 1))
		for version = 2; version < 1000; version++ {
			p := &pod{name: fmt.Sprint(r.IntN(10)), n: int(version)}
			switch k := r.IntN(20); {
			case k == 0:
				for range 3 {
					delete(truth, fmt.Sprint(r.IntN(10))) // unseen by the watch
				}
				require.NoError(t, f.Replace(list(), version))
			case k == 1:
				f.Bookmark(version)
			case k < 8:
				delete(truth, p.name)
				require.NoError(t, f.Delete(p, version))
			case truth[p.name] == nil:
				truth[p.name] = p
				require.NoError(t, f.Add(p, version))
			default:
				truth[p.name] = p
				require.NoError(t, f.Update(p, version))
			}
		}
		close(done)
		others.Wait()
		f.Close()
		consumer.Wait()

		// What the consumer has failed on is healed by a list.
		g := newFIFO(x)
		require.NoError(t, g.Replace(list(), version))
		drain(t, g, x)
		require.Equal(t, truth, maps.Collect(x.All()))
		require.Equal(t, version, g.Version())
	}
}

// TestReplaceDoesNotMissKeyMovingToCache has a consumer that moves one key from the queue to the cache while Replace looks for it in
// both.
func TestReplaceDoesNotMissKeyMovingToCache(t *testing.T) {
	for range 200 {
		x := newPods()
		f := newFIFO(x)
		require.NoError(t, f.Add(a(1), 1))
		var wg sync.WaitGroup
		// Replaces once; the test waits for it.
		wg.Go(func() { assert.NoError(t, f.Replace([]*pod{b(1)}, 2)) })
		drain(t, f, x)
		wg.Wait()
		drain(t, f, x)
		require.Equal(t, []string{"b"}, names(x.All()))
		require.EqualValues(t, 2, f.Version())
	}
}
