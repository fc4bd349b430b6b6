package cache_test

import (
	"errors"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

// step pops one key, with the given result.
func step(t *testing.T, f *fifo, x *cache.Indexer[string, *pod], result error) {
	t.Helper()
	popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
		if result == nil {
			apply(x, key, deltas)
		}
		return result
	})
	require.True(t, popped)
	require.Equal(t, result, err)
}

func TestVersionPrecedesOldestPendingChange(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.Zero(t, f.Version())
	require.NoError(t, f.Add(a(1), 10))
	require.Zero(t, f.Version(), "the state before 10 is unknown")
	require.NoError(t, f.Add(b(1), 20))
	require.NoError(t, f.Update(a(2), 50))
	f.Bookmark(60)
	step(t, f, x, nil)
	require.EqualValues(t, 10, f.Version(), "a is at 50, but 20 waits")
	step(t, f, x, nil)
	require.EqualValues(t, 60, f.Version())
	f.Bookmark(70)
	f.Bookmark(65)
	require.EqualValues(t, 70, f.Version())
}

func TestKeyInProcessHoldsBackVersion(t *testing.T) {
	f := newFIFO(newPods())
	require.NoError(t, f.Replace([]*pod{a(1)}, 10))
	_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
		f.Bookmark(20)
		require.Zero(t, f.Version())
		return nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 20, f.Version())
}

func TestFailureHoldsBackVersion(t *testing.T) {
	bad := errors.New("bad")
	heal := map[string]func(*fifo) error{
		"a later change":                    func(f *fifo) error { return f.Update(a(2), 30) },
		"a list with the key":               func(f *fifo) error { return f.Replace([]*pod{a(2)}, 30) },
		"a list without it":                 func(f *fifo) error { return f.Replace(nil, 30) },
		"the deletion of an unknown object": func(f *fifo) error { return f.Delete(a(1), 30) },
	}
	for what, change := range heal {
		for _, known := range []bool{true, false} {
			x := newPods()
			f := newFIFO(x)
			if known {
				x.Upsert(a(0))
			} else {
				f = newFIFO(nil)
			}
			f.Bookmark(10)
			require.NoError(t, f.Add(a(1), 20))
			step(t, f, x, bad)
			f.Bookmark(25)
			require.EqualValues(t, 10, f.Version(), what)
			if known {
				f.Resync()
				step(t, f, x, nil)
				require.EqualValues(t, 10, f.Version(), "a Sync brings no change")
			}
			require.NoError(t, change(f), what)
			drain(t, f, x)
			require.EqualValues(t, 30, f.Version(), what)
		}
	}
}

func TestFailedSyncDoesNotHoldBackVersion(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	f.Bookmark(10)
	f.Resync()
	step(t, f, x, errors.New("bad"))
	f.Bookmark(20)
	require.EqualValues(t, 20, f.Version())
}

func TestResyncDoesNotChangeVersion(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 10))
	drain(t, f, x)
	f.Resync()
	require.EqualValues(t, 10, f.Version())
	require.NoError(t, f.Update(b(1), 20))
	require.EqualValues(t, 10, f.Version())
}

func TestSecondChangeAtSameVersionHoldsBackVersion(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	f.Bookmark(4)
	require.NoError(t, f.Add(a(1), 5))
	drain(t, f, x)
	require.EqualValues(t, 5, f.Version(), "another change at 5 is not known yet")
	f.Resync()
	require.EqualValues(t, 5, f.Version())
	require.NoError(t, f.Add(b(1), 5))
	require.EqualValues(t, 4, f.Version(), "despite the Sync before it")
	step(t, f, x, nil)
	require.EqualValues(t, 4, f.Version())
	step(t, f, x, nil)
	require.EqualValues(t, 5, f.Version())
}

func TestListAtOlderVersionStartsNewHistory(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 100))
	drain(t, f, x)
	require.NoError(t, f.Update(a(2), 150))
	require.NoError(t, f.Add(&pod{name: "c"}, 160))
	step(t, f, x, errors.New("bad"))
	require.EqualValues(t, 100, f.Version())

	require.NoError(t, f.Replace([]*pod{b(1)}, 40))
	for range 2 { // c, and b
		require.Zero(t, f.Version(), "version 100 is from another history now")
		if f.Len() > 1 {
			_, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error { apply(x, key, deltas); return nil })
			require.NoError(t, err)
		}
	}
	drain(t, f, x)
	require.EqualValues(t, 40, f.Version())
	require.Equal(t, []string{"b"}, names(x.All()))
	require.NoError(t, f.Update(b(2), 41))
	drain(t, f, x)
	require.EqualValues(t, 41, f.Version())
}

func TestFailureBeforeNewHistoryHoldsBackVersion(t *testing.T) {
	bad := errors.New("bad")
	t.Run("a key that failed before", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		f.Bookmark(100)
		require.NoError(t, f.Add(a(1), 150))
		step(t, f, x, bad)
		require.NoError(t, f.Replace([]*pod{a(2)}, 120))
		step(t, f, x, bad)
		require.Zero(t, f.Version())
	})
	t.Run("a key that was being processed", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		f.Bookmark(100)
		require.NoError(t, f.Add(a(1), 150))
		_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
			require.NoError(t, f.Replace([]*pod{a(2)}, 120))
			require.Zero(t, f.Version())
			return bad
		})
		require.Equal(t, bad, err)
		step(t, f, x, bad)
		require.Zero(t, f.Version())
	})
}

func TestEmptyListOfNewHistoryHoldsVersionAtZero(t *testing.T) {
	f := must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{}))
	pop := func() {
		_, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error { return nil })
		require.NoError(t, err)
	}
	require.NoError(t, f.Add(a(1), 1))
	pop()
	require.NoError(t, f.Add(b(1), 5))
	require.NoError(t, f.Replace(nil, 3))
	require.Zero(t, f.Version(), "the deletion of b is not processed")
	pop()
	require.EqualValues(t, 3, f.Version())
}
