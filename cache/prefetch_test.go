package cache_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func podNamed(i int) string { return fmt.Sprintf("pod-%d", i) }

func TestWhatIsPrefetchedIsWhatIsThere(t *testing.T) {
	const n = 1000
	x := newPods()
	var keys []string
	for i := range n {
		x.Upsert(&pod{name: podNamed(i)})
		keys = append(keys, podNamed(i), podNamed(i+n)) // every second one is not there
	}
	require.Equal(t, n, cache.PrefetchAll(x, keys))
	for i := range n / 2 { // so that the slots are left and filled again
		x.Delete(podNamed(i))
		x.Upsert(&pod{name: podNamed(i + 2*n)})
	}
	for i := range n / 2 {
		keys = append(keys, podNamed(i+2*n))
	}
	require.NoError(t, cache.CheckInvariants(x))
	found := cache.PrefetchAll(x, keys)
	require.GreaterOrEqual(t, found, n)
	require.LessOrEqual(t, found, n+n/2, "some may be found that have just gone")
	require.Zero(t, cache.PrefetchAll(newPods(), keys))
	require.Zero(t, cache.PrefetchAll(x, nil))
}

func TestAPrefetchChangesAndAllocatesNothing(t *testing.T) {
	for _, n := range []int{0, 10, 60_000} { // too few, and enough
		x := newPods()
		keys := make([]string, 200)
		for i := range keys {
			keys[i] = podNamed(i)
		}
		for i := range n {
			x.Upsert(&pod{name: podNamed(i)})
		}
		before := names(x.All())
		require.Zero(t, testing.AllocsPerRun(10, func() { x.Prefetch(keys) }))
		x.Prefetch(keys[:1])
		x.Prefetch(nil)
		require.Equal(t, before, names(x.All()))
		require.NoError(t, cache.CheckInvariants(x))
	}
}

// TestAPrefetchWaitsForNobody is for the race detector, too.
func TestAPrefetchWaitsForNobody(t *testing.T) {
	x := newPods()
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = podNamed(i)
		x.Upsert(&pod{name: keys[i]})
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { // ends by itself
			for range 200 {
				cache.PrefetchAll(x, keys)
			}
		})
	}
	for i := range 20_000 { // objects come, change and go; tables grow and are left behind
		x.Upsert(&pod{name: podNamed(i), n: i})
		if i%3 == 0 {
			x.Delete(podNamed(i / 2))
		}
	}
	wg.Wait()
	cache.LockForEver(x)
	x.Prefetch(keys)
	cache.PrefetchAll(x, keys)
}
