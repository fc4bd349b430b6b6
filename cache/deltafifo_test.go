package cache_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
)

type fifo = cache.DeltaFIFO[string, *pod]

// a and b make the objects of the tests: a1 is the first state of a.
func a(n int) *pod { return &pod{name: "a", n: n} }
func b(n int) *pod { return &pod{name: "b", n: n} }

// apply does to x what a level consumer does.
func apply(x *cache.Indexer[string, *pod], key string, deltas cache.Deltas[*pod]) {
	for d := range deltas.All() {
		if d.Type == cache.Deleted {
			x.Delete(key)
		} else {
			x.Upsert(d.Object)
		}
	}
}

// line describes what process was called with: "a: Deleted 1, Added 2". A question mark stands for FinalStateUnknown,
// and a final star for initial.
func line(key string, deltas iter.Seq[cache.Delta[*pod]], initial bool) string {
	var words []string
	for d := range deltas {
		word := d.Type.String()
		if d.FinalStateUnknown {
			word += "?"
		}
		words = append(words, fmt.Sprint(word, " ", d.Object.n))
	}
	text := key + ": " + strings.Join(words, ", ")
	if initial {
		text += " *"
	}
	return text
}

// drain pops and applies everything that waits, and describes it.
func drain(t *testing.T, f *fifo, x *cache.Indexer[string, *pod]) []string {
	t.Helper()
	lines := []string{}
	for {
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
			lines = append(lines, line(key, deltas.All(), initial))
			apply(x, key, deltas)
			return nil
		})
		require.NoError(t, err)
		if !popped {
			return lines
		}
	}
}

func TestReplaceDeletesPendingKeys(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	x.Upsert(b(1))
	require.NoError(t, f.Update(b(2), 1)) // waits and is known
	require.NoError(t, f.Add(a(1), 2))    // only waits
	require.NoError(t, f.Replace(nil, 3))
	require.Equal(t, []string{"b: Deleted? 2"}, drain(t, f, x), "and a was never seen")

	unasked := newFIFO(nil) // the queue cannot know whether the consumer has seen a
	require.NoError(t, unasked.Add(a(1), 2))
	require.NoError(t, unasked.Replace(nil, 3))
	require.Equal(t, []string{"a: Deleted? 1"}, drain(t, unasked, x))
}

func TestTombstoneHasNewestKnownState(t *testing.T) {
	for what, test := range map[string]struct {
		waits func(*fifo) error
		want  string
	}{
		"nothing is pending":         {func(f *fifo) error { return nil }, "a: Deleted? 1"},
		"a Sync waits":               {func(f *fifo) error { f.Resync(); return nil }, "a: Deleted? 1"},
		"an update waits":            {func(f *fifo) error { return f.Update(a(2), 1) }, "a: Deleted? 2"},
		"a deletion waits":           {func(f *fifo) error { return f.Delete(a(3), 1) }, "a: Deleted 3"},
		"a tombstone waits":          {func(f *fifo) error { return f.Replace(nil, 1) }, "a: Deleted? 1"},
		"another incarnation waits":  {func(f *fifo) error { return errors.Join(f.Delete(a(3), 1), f.Add(a(4), 1)) }, "a: Deleted 3"},
		"an earlier one returns too": {func(f *fifo) error { return errors.Join(f.Update(a(2), 1), f.Replace(nil, 1)) }, "a: Deleted? 2"},
	} {
		t.Run(what, func(t *testing.T) {
			x := newPods()
			x.Upsert(a(1))
			f := newFIFO(x)
			require.NoError(t, test.waits(f))
			require.NoError(t, f.Replace(nil, 2))
			require.NoError(t, f.Replace(nil, 3), "a key is not tombstoned twice")
			got := drain(t, f, x)
			require.Equal(t, []string{test.want}, []string{strings.TrimSuffix(got[0], " *")})
			require.Len(t, got, 1)
		})
	}
}

func TestDeleteStateWinsOverTombstone(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	require.NoError(t, f.Replace(nil, 1))
	require.NoError(t, f.Delete(a(2), 2))
	require.Equal(t, []string{"a: Deleted 2 *"}, drain(t, f, x))
}

func TestResyncNeverFollowsNewerStateWithOlder(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	x.Upsert(b(1))
	f := newFIFO(x)
	require.NoError(t, f.Update(a(2), 1))
	f.Resync()
	f.Resync()
	require.Equal(t, 2, f.Len())
	require.NoError(t, f.Update(b(2), 2))
	require.Equal(t, []string{"a: Updated 2", "b: Updated 2"}, drain(t, f, x))

	f.Resync()
	x.Upsert(a(3)) // the consumer's state when it reaches the Sync
	x.Delete("b")
	require.Equal(t, []string{"a: Sync 3"}, drain(t, f, x))

	newFIFO(nil).Resync() // of nothing
}

func TestHasSyncedAfterFirstListIsProcessed(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	require.NoError(t, f.Replace([]*pod{a(1)}, 5))
	require.NoError(t, f.Add(&pod{name: "c"}, 6))
	for i, want := range []string{"a: Replaced 1 *", "b: Deleted? 1 *"} {
		require.False(t, f.HasSynced())
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], initial bool) error {
			require.False(t, f.HasSynced(), "process has not returned")
			require.Equal(t, want, line(key, deltas.All(), initial))
			if i == 0 {
				return errors.New("an error counts too")
			}
			return nil
		})
		require.True(t, popped)
		require.Equal(t, i == 0, err != nil)
	}
	require.True(t, f.HasSynced())
	require.Equal(t, []string{"c: Added 0"}, drain(t, f, x), "c was not in the first list")
}

func TestHasSyncedWaitsForDeletionOfPendingKey(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	f.Resync()
	require.NoError(t, f.Replace(nil, 5))
	require.False(t, f.HasSynced())
	require.Equal(t, []string{"b: Deleted? 1 *"}, drain(t, f, x))
	require.True(t, f.HasSynced())
}

func TestHasSyncedImmediatelyAfterEmptyList(t *testing.T) {
	for what, first := range map[string]func(*fifo) error{
		"an empty list": func(f *fifo) error { return f.Replace(nil, 1) },
		"Add":           func(f *fifo) error { return f.Add(a(1), 1) },
		"Update":        func(f *fifo) error { return f.Update(a(1), 1) },
		"Delete":        func(f *fifo) error { return f.Delete(a(1), 1) },
	} {
		f := newFIFO(newPods())
		f.Bookmark(1)
		f.Resync()
		require.False(t, f.HasSynced(), what)
		require.NoError(t, first(f), what)
		require.True(t, f.HasSynced(), what)
		<-f.Synced()
		require.NoError(t, f.Replace([]*pod{a(1)}, 2), what)
		require.True(t, f.HasSynced(), what)
	}
}

func TestDeleteOfUnknownKeyIsNotReported(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Delete(a(1), 1))
	require.NoError(t, f.Add(b(1), 2))
	require.NoError(t, f.Delete(b(2), 3))
	require.Empty(t, drain(t, f, x))
	require.EqualValues(t, 3, f.Version())
	require.Zero(t, f.Len())

	unasked := newFIFO(nil)
	require.NoError(t, unasked.Delete(a(1), 1))
	require.Equal(t, []string{"a: Deleted 1"}, drain(t, unasked, x))
}

func TestRepeatedChangeKeepsPlaceInQueue(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 1))
	require.NoError(t, f.Add(b(1), 2))
	require.NoError(t, f.Update(a(2), 3))
	require.Equal(t, []string{"a: Added 2", "b: Added 1"}, drain(t, f, x))
}

func TestPendingDeltasAreMerged(t *testing.T) {
	type change = func(*fifo, *pod) error
	add, update, del := change(func(f *fifo, p *pod) error { return f.Add(p, 1) }),
		change(func(f *fifo, p *pod) error { return f.Update(p, 1) }),
		change(func(f *fifo, p *pod) error { return f.Delete(p, 1) })
	list := change(func(f *fifo, p *pod) error { return f.Replace([]*pod{p}, 1) })
	empty := change(func(f *fifo, p *pod) error { return f.Replace(nil, 1) })
	resync := change(func(f *fifo, p *pod) error { f.Resync(); return nil })

	for want, changes := range map[string][]change{
		"a: Updated 2":             {update, update},
		"a: Added 3":               {update, add, update},
		"a: Replaced 4":            {add, list, update, add},
		"a: Updated 5":             {resync, update, resync, resync, update},
		"a: Deleted 2":             {update, del},
		"a: Deleted 3":             {add, del, del},
		"a: Deleted 1, Added 2":    {del, add},
		"a: Deleted 1, Added 3":    {del, add, update},
		"a: Deleted 1":             {del, add, del, empty},
		"a: Deleted? 0":            {empty, add, del, empty},
		"a: Deleted? 0, Added 4":   {empty, add, del, add},
		"a: Deleted 1, Replaced 2": {del, list},
	} {
		x := newPods()
		x.Upsert(a(0))
		f := newFIFO(x)
		require.NoError(t, f.Add(b(0), 0)) // so that there is no first list
		for i, change := range changes {
			require.NoError(t, change(f, a(i+1)))
		}
		got := drain(t, f, x)
		require.Contains(t, got, want)
	}
}

func TestTransformRunsOncePerObject(t *testing.T) {
	x := newPods()
	calls := make(map[int]int)
	bad := errors.New("bad")
	f := must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{
		KnownObjects: x,
		Transform: func(p *pod) (*pod, error) {
			if p.n < 0 {
				return nil, bad
			}
			calls[p.n]++
			return &pod{name: p.name, n: p.n + 100}, nil
		},
	}))
	require.NoError(t, f.Replace([]*pod{a(1), b(2)}, 1))
	require.Equal(t, []string{"a: Replaced 101 *", "b: Replaced 102 *"}, drain(t, f, x))
	f.Resync()
	require.Equal(t, []string{"a: Sync 101", "b: Sync 102"}, drain(t, f, x))
	require.NoError(t, f.Update(a(3), 2))
	require.NoError(t, f.Delete(b(4), 3))
	require.Equal(t, []string{"a: Updated 103", "b: Deleted 104"}, drain(t, f, x))
	require.NoError(t, f.Replace(nil, 4))
	require.Equal(t, []string{"a: Deleted? 103"}, drain(t, f, x))
	require.Equal(t, map[int]int{1: 1, 2: 1, 3: 1, 4: 1}, calls)

	for what, err := range map[string]error{
		"Add":     f.Add(a(-1), 5),
		"Update":  f.Update(a(-1), 5),
		"Delete":  f.Delete(a(-1), 5),
		"Replace": f.Replace([]*pod{a(1), b(-1)}, 5),
	} {
		require.ErrorIs(t, err, bad, what)
		require.Contains(t, err.Error(), "cache: transform ", what)
	}
	require.EqualValues(t, 4, f.Version(), "an error changes nothing")
	require.Empty(t, drain(t, f, x))
}

func TestDeleteWhileProcessingIsNotLost(t *testing.T) {
	for what, forget := range map[string]func(*fifo) error{
		"Delete":  func(f *fifo) error { return f.Delete(a(2), 2) },
		"Replace": func(f *fifo) error { return f.Replace(nil, 2) },
	} {
		x := newPods()
		f := newFIFO(x)
		require.NoError(t, f.Add(a(1), 1))
		popped, err := f.TryPop(func(key string, deltas cache.Deltas[*pod], _ bool) error {
			err := forget(f) // a is neither known nor does it wait
			apply(x, key, deltas)
			return err
		})
		require.NoError(t, err)
		require.True(t, popped)
		require.Len(t, drain(t, f, x), 1, what)
		require.Zero(t, x.Len(), what)
	}
}

func TestConsumerMayAdd(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 1))
	popped, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
		require.Zero(t, f.Len())
		require.Zero(t, f.Version())
		f.Bookmark(2)
		f.Resync()
		return errors.Join(f.Update(a(2), 3), f.Replace([]*pod{b(1)}, 4))
	})
	require.True(t, popped)
	require.NoError(t, err)
	require.Equal(t, []string{"b: Replaced 1"}, drain(t, f, x))
}

func TestListOfNewHistoryHoldsVersionAtZeroUntilProcessed(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 9))
	require.NoError(t, f.Add(b(1), 10))
	drain(t, f, x)
	require.EqualValues(t, 10, f.Version())
	require.NoError(t, f.Replace([]*pod{a(1)}, 3))
	require.Zero(t, f.Version())
	require.Equal(t, []string{"a: Replaced 1", "b: Deleted? 1"}, drain(t, f, x))
	require.EqualValues(t, 3, f.Version())
}

// interrupted is a cache that calls do after it was read and before the reader sees the result.
type interrupted struct {
	*cache.Indexer[string, *pod]
	do []func()
}

func (i *interrupted) All() iter.Seq2[string, *pod] {
	s := i.Snapshot()
	do := i.do[0]
	i.do = i.do[1:]
	do()
	return s.All()
}

func TestPanickingReplaceDoesNotHideDeletionFromAnother(t *testing.T) {
	x := &interrupted{Indexer: newPods()}
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 1))
	x.do = []func(){
		func() { // the first list has read the cache, which lacks a
			require.Equal(t, []string{"a: Added 1"}, drain(t, f, x.Indexer))
			require.Panics(t, func() { _ = f.Replace(nil, 2) })
		},
		func() { panic("the second one") },
	}
	require.NoError(t, f.Replace(nil, 3))
	require.Equal(t, []string{"a: Deleted? 1"}, drain(t, f, x.Indexer))
}

func TestWithoutKnownObjectsDeletionOfUnseenObjectIsReported(t *testing.T) {
	f := newFIFO(nil)
	require.NoError(t, f.Add(a(1), 1))
	require.NoError(t, f.Delete(a(2), 2))
	require.Equal(t, []string{"a: Deleted 2"}, drain(t, f, newPods()))
}

// hooked is the KnownObjects of a queue, with something that happens after all of it was read.
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

func TestPop(t *testing.T) {
	ctx := context.Background()
	nothing := func(string, cache.Deltas[*pod], bool) error { return nil }

	for what, call := range map[string]func(*fifo) error{
		"Add":     func(f *fifo) error { return f.Add(a(2), 2) },
		"Replace": func(f *fifo) error { return f.Replace([]*pod{a(2)}, 2) },
		"Resync":  func(f *fifo) error { f.Resync(); return nil },
	} {
		t.Run("it waits for a change, here by "+what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newPods()
				f := newFIFO(x)
				var got string
				var wg sync.WaitGroup
				// Pops once; the test waits for it.
				wg.Go(func() {
					err := f.Pop(ctx, func(key string, _ cache.Deltas[*pod], _ bool) error { got = key; return nil })
					assert.NoError(t, err)
				})
				require.NoError(t, f.Delete(b(1), 1)) // wakes it, but is not reported
				synctest.Wait()
				require.Empty(t, got)
				x.Upsert(a(1))
				require.NoError(t, call(f))
				wg.Wait()
				require.Equal(t, "a", got)
			})
		})
	}
	t.Run("it ends with the cause of the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			ctx, cancel := context.WithCancelCause(ctx)
			cause := errors.New("cause")
			var wg sync.WaitGroup
			// Pops until ctx ends; the test waits for it.
			wg.Go(func() { assert.Equal(t, cause, f.Pop(ctx, nothing)) })
			synctest.Wait()
			cancel(cause)
			wg.Wait()
			require.NoError(t, f.Add(a(1), 1))
			require.Equal(t, cause, f.Pop(ctx, nothing), "even with pending keys")
			require.Equal(t, 1, f.Len())
		})
	})
	t.Run("after Close it returns the pending keys, and then ErrClosed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			x := newPods()
			x.Upsert(b(1))
			f := newFIFO(x)
			require.NoError(t, f.Add(a(1), 1))
			f.Close()
			f.Close()
			require.Equal(t, cache.ErrClosed, f.Add(b(1), 2))
			require.Equal(t, cache.ErrClosed, f.Replace(nil, 2))
			f.Resync()
			require.NoError(t, f.Pop(ctx, nothing))
			require.Equal(t, cache.ErrClosed, f.Pop(ctx, nothing))
			popped, err := f.TryPop(nothing)
			require.False(t, popped)
			require.Equal(t, cache.ErrClosed, err)
		})
	})
	t.Run("Close wakes it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			var wg sync.WaitGroup
			// Pops until the queue is closed; the test waits for it.
			wg.Go(func() { assert.Equal(t, cache.ErrClosed, f.Pop(ctx, nothing)) })
			synctest.Wait()
			f.Close()
			wg.Wait()
		})
	})
	t.Run("a second consumer panics", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFIFO(newPods())
			var wg sync.WaitGroup
			// Pops once; the test waits for it.
			wg.Go(func() { assert.NoError(t, f.Pop(ctx, nothing)) })
			synctest.Wait()
			require.Panics(t, func() { _ = f.Pop(ctx, nothing) })
			require.Panics(t, func() { _, _ = f.TryPop(nothing) })
			require.NoError(t, f.Add(a(1), 1))
			wg.Wait()
			require.NoError(t, f.Add(b(1), 1))
			popped, err := f.TryPop(func(string, cache.Deltas[*pod], bool) error {
				require.Panics(t, func() { _, _ = f.TryPop(nothing) })
				return nil
			})
			require.True(t, popped)
			require.NoError(t, err)
		})
	})
	t.Run("an error from process is returned, and nothing is requeued", func(t *testing.T) {
		f := newFIFO(newPods())
		require.NoError(t, f.Add(a(1), 1))
		bad := errors.New("bad")
		require.Equal(t, bad, f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { return bad }))
		require.Zero(t, f.Len())
	})
	t.Run("a panic in process leaves the queue usable and holds back the version", func(t *testing.T) {
		x := newPods()
		f := newFIFO(x)
		require.NoError(t, f.Replace([]*pod{a(1)}, 5))
		require.Panics(t, func() { _ = f.Pop(ctx, func(string, cache.Deltas[*pod], bool) error { panic("bad") }) })
		require.True(t, f.HasSynced())
		require.Zero(t, f.Version())
		require.NoError(t, f.Update(a(2), 6))
		require.Equal(t, []string{"a: Updated 2"}, drain(t, f, x))
		require.EqualValues(t, 6, f.Version())
	})
}

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

func TestLargeReplaceKeepsPendingKeys(t *testing.T) {
	x := newPods()
	x.Upsert(b(1))
	f := newFIFO(x)
	require.NoError(t, f.Add(a(1), 1))
	require.NoError(t, f.Update(b(2), 2))
	list := []*pod{a(2)}
	for i := range 1000 {
		list = append(list, &pod{name: fmt.Sprint(i)})
	}
	require.NoError(t, f.Replace(list, 3))
	require.NoError(t, f.CheckInvariants())
	require.Equal(t, len(list)+1, f.Len())
	lines := drain(t, f, x)
	require.Equal(t, []string{"a: Replaced 2", "b: Deleted? 2", "0: Replaced 0"}, lines[:3])
	require.Equal(t, len(list), x.Len())
}

func TestMergedIncarnationIsNotKeptAlive(t *testing.T) {
	x := newPods()
	x.Upsert(a(1))
	f := newFIFO(x)
	unseen := a(3)
	freed := make(chan struct{})
	runtime.AddCleanup(unseen, func(freed chan struct{}) { close(freed) }, freed)
	require.NoError(t, f.Delete(a(2), 1))
	require.NoError(t, f.Add(unseen, 2))
	unseen = nil
	require.NoError(t, f.Delete(a(3), 3))
	for range 10 {
		runtime.GC()
	}
	<-freed // or else the test never ends
	require.Equal(t, []string{"a: Deleted 2"}, drain(t, f, x))
}

func TestRepeatedUpdatesOfOneKeyHoldOneObject(t *testing.T) {
	x := newPods()
	f := newFIFO(x)
	const updates = 1000
	freed := make(chan struct{}, updates)
	for i := range updates {
		p := a(i)
		runtime.AddCleanup(p, func(freed chan struct{}) { freed <- struct{}{} }, freed)
		require.NoError(t, f.Update(p, uint64(i)))
	}
	for range 10 {
		runtime.GC()
	}
	for range updates - 1 {
		<-freed // all but the last
	}
	require.Equal(t, []string{"a: Updated 999"}, drain(t, f, x))
}

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

func TestNewDeltaFIFORejectsBadConfigAndNilKeyFunc(t *testing.T) {
	never := func(_, _ *pod) bool { return false }
	_, err := cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never})
	require.EqualError(t, err, "cache: new delta FIFO: DeltaFIFOConfig.Equal is set without DeltaFIFOConfig.KnownObjects")
	_, err = cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{Equal: never, KnownObjects: newPods()})
	require.NoError(t, err)
	require.PanicsWithValue(t, "cache: NewDeltaFIFO: the key function is nil", func() {
		_, _ = cache.NewDeltaFIFO(nil, cache.DeltaFIFOConfig[string, *pod]{})
	})
}
