package cache_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

func TestConsumerMayKeepDeltas(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	require.NoError(t, f.Delete(a(1), 1))
	require.NoError(t, f.Add(a(2), 2))
	require.NoError(t, f.Add(b(1), 3))
	var kept []cache.Deltas[*pod]
	for range 2 {
		_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
			kept = append(kept, deltas)
			return nil
		})
		require.NoError(t, err)
	}
	require.Equal(t, "a: Deleted 1, Added 2", line("a", kept[0].All(), false))
	require.Equal(t, "b: Added 1", line("b", kept[1].All(), false))
}

func TestDeltasNewestIsFinalState(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	var newest cache.Delta[*pod]
	pop := func() {
		_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
			newest = deltas.Newest()
			return nil
		})
		require.NoError(t, err)
	}
	require.NoError(t, f.Delete(a(1), 1))
	require.NoError(t, f.Add(a(2), 2))
	pop()
	require.Equal(t, cache.Delta[*pod]{Type: cache.Added, Object: a(2)}, newest)
	require.NoError(t, f.Delete(a(2), 3))
	pop()
	require.Equal(t, cache.Delta[*pod]{Type: cache.Deleted, Object: a(2)}, newest)
}

func TestDeltasLoopMayBreak(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	require.NoError(t, f.Delete(a(1), 1))
	require.NoError(t, f.Add(a(2), 2))
	_, err := f.TryPop(func(_ string, deltas cache.Deltas[*pod], _ bool) error {
		for d := range deltas.All() {
			require.Equal(t, cache.Deleted, d.Type)
			break
		}
		return nil
	})
	require.NoError(t, err)
}

func TestPopDoesNotAllocate(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	object, version := a(1), uint64(0)
	process := func(string, cache.Deltas[*pod], bool) error { return nil }
	allocations := testing.AllocsPerRun(100, func() {
		version++
		_ = f.Update(object, version)
		_, _ = f.TryPop(process)
	})
	require.Zero(t, allocations)
}
