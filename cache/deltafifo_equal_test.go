package cache_test

import (
	"errors"
	"iter"
	"maps"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

// hooked is what a queue knows, with something that happens after all of it was read.
type hooked struct {
	*cache.Indexer[string, *pod]
	after func()
}

func (h *hooked) All() iter.Seq2[string, *pod] {
	return func(yield func(string, *pod) bool) {
		h.Indexer.All()(yield)
		if h.after != nil {
			h.after()
		}
	}
}

// newComparing returns a queue that compares states, and a cache with a1 and b1.
func newComparing() (*fifo, *hooked) {
	x := &hooked{Indexer: newPods()}
	x.Upsert(a(1))
	x.Upsert(b(1))
	return must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{
		KnownObjects: x,
		Equal:        func(known, listed *pod) bool { return known.n == listed.n },
	})), x
}

func TestReplaceWithUnchangedObjectsReportsNothing(t *testing.T) {
	f, x := newComparing()
	require.NoError(t, f.Replace([]*pod{a(1), b(1)}, 10))
	require.True(t, f.HasSynced(), "nothing is pending")
	require.EqualValues(t, 10, f.Version())
	require.Empty(t, drain(t, f, x.Indexer))

	require.NoError(t, f.Replace([]*pod{a(2), b(1)}, 20))
	require.EqualValues(t, 10, f.Version())
	require.Equal(t, []string{"a: Replaced 2"}, drain(t, f, x.Indexer))
	require.NoError(t, f.Replace([]*pod{b(1)}, 30))
	require.Equal(t, []string{"a: Deleted? 2"}, drain(t, f, x.Indexer))
	require.EqualValues(t, 30, f.Version())
}

func TestReplaceComparesLastObjectOfDuplicateKey(t *testing.T) {
	f, x := newComparing()
	require.NoError(t, f.Replace([]*pod{a(2), b(1), a(1)}, 10))
	require.Empty(t, drain(t, f, x.Indexer))
	require.NoError(t, f.Replace([]*pod{a(1), b(1), a(2)}, 20))
	require.Equal(t, []string{"a: Replaced 2"}, drain(t, f, x.Indexer))
}

func TestReplaceReportsUnchangedObjectWithPendingDeltas(t *testing.T) {
	list := func(f *fifo) error { return f.Replace([]*pod{a(1), b(1)}, 20) }
	want := func(t *testing.T, f *fifo, x *hooked) {
		t.Helper()
		drain(t, f, x.Indexer)
		require.Equal(t, map[string]int{"a": 1, "b": 1}, states(x))
		require.EqualValues(t, 20, f.Version())
	}
	t.Run("an update waits", func(t *testing.T) {
		f, x := newComparing()
		require.NoError(t, f.Update(a(2), 10))
		require.NoError(t, list(f))
		want(t, f, x)
	})
	t.Run("a deletion waits", func(t *testing.T) {
		f, x := newComparing()
		require.NoError(t, f.Delete(a(2), 10))
		require.NoError(t, list(f))
		want(t, f, x)
	})
	t.Run("an update is being processed", func(t *testing.T) {
		f, x := newComparing()
		require.NoError(t, f.Update(a(2), 10))
		_, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
			err := list(f)
			apply(x.Indexer, key, deltas)
			return err
		})
		require.NoError(t, err)
		want(t, f, x)
	})
	t.Run("an update is processed after the cache is read", func(t *testing.T) {
		f, x := newComparing()
		require.NoError(t, f.Update(a(2), 10))
		x.after = func() {
			x.after = nil
			require.Len(t, drain(t, f, x.Indexer), 1)
		}
		require.NoError(t, list(f))
		want(t, f, x)
	})
	t.Run("an update has failed", func(t *testing.T) {
		f, x := newComparing()
		require.NoError(t, f.Update(a(2), 10))
		step(t, f, x.Indexer, errors.New("bad"))
		require.NoError(t, list(f))
		want(t, f, x)
	})
}

func states(x *hooked) map[string]int {
	states := make(map[string]int)
	for key, p := range x.Indexer.All() {
		states[key] = p.n
	}
	return states
}

// TestMergedDeltasEqualIndividualDeltas compares a consumer that pops once with one that pops after every call.
func TestMergedDeltasEqualIndividualDeltas(t *testing.T) {
	t.Parallel()
	calls := []func(f *fifo, n int) error{
		func(f *fifo, n int) error { return f.Add(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Update(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Delete(a(n), uint64(n)) },
		func(f *fifo, n int) error { return f.Replace([]*pod{a(n)}, uint64(n)) },
		func(f *fifo, n int) error { return f.Replace(nil, uint64(n)) },
		func(f *fifo, n int) error { f.Resync(); return nil },
	}
	run := func(history []int, warm, every bool) (map[string]*pod, uint64) {
		x := newPods()
		if warm {
			x.Upsert(a(0))
		}
		f := newFIFO(x)
		for i, call := range history {
			require.NoError(t, calls[call](f, i+1))
			if every {
				drain(t, f, x)
			}
		}
		require.LessOrEqual(t, f.Len(), 1)
		drain(t, f, x)
		return maps.Collect(x.All()), f.Version()
	}
	var extend func(history []int)
	extend = func(history []int) {
		for _, warm := range []bool{false, true} {
			states, version := run(history, warm, true)
			merged, at := run(history, warm, false)
			require.Equal(t, states, merged, "%v, warm: %v", history, warm)
			require.Equal(t, version, at, "%v, warm: %v", history, warm)
		}
		if len(history) < 4 {
			for call := range calls {
				extend(append(history[:len(history):len(history)], call))
			}
		}
	}
	extend(nil)
}
