package cache_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
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

	newFIFO(nil).Resync() // knows nothing
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
