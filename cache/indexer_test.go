package cache_test

import (
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
)

// pod is the object of the tests. Its number distinguishes its states.
type pod struct {
	name  string
	n     int
	nodes []string
}

func podName(p *pod) string    { return p.name }
func podNodes(p *pod) []string { return p.nodes }

func newPods() *cache.Indexer[string, *pod] { return cache.NewIndexer(podName) }

func newFIFO(known cache.Reader[string, *pod]) *cache.DeltaFIFO[string, *pod] {
	return must(cache.NewDeltaFIFO(podName, cache.DeltaFIFOConfig[string, *pod]{KnownObjects: known}))
}

// names returns the keys of seq in order.
func names(seq func(func(string, *pod) bool)) []string {
	var names []string
	for name := range seq {
		names = append(names, name)
	}
	return names
}

func TestIndexer(t *testing.T) {
	a1, a2, b1 := &pod{name: "a", n: 1}, &pod{name: "a", n: 2}, &pod{name: "b", n: 1}

	t.Run("a missing object is not found", func(t *testing.T) {
		x := newPods()
		got, ok := x.Get("a")
		require.False(t, ok)
		require.Nil(t, got)
	})
	t.Run("Upsert returns the previous object", func(t *testing.T) {
		x := newPods()
		old, existed := x.Upsert(a1)
		require.False(t, existed)
		require.Nil(t, old)
		old, existed = x.Upsert(a2)
		require.True(t, existed)
		require.Same(t, a1, old)
		got, ok := x.Get("a")
		require.True(t, ok)
		require.Same(t, a2, got)
		require.Equal(t, 1, x.Len())
	})
	t.Run("Delete returns the deleted object, or false if there is none", func(t *testing.T) {
		x := newPods()
		x.Upsert(a1)
		old, existed := x.Delete("a")
		require.True(t, existed)
		require.Same(t, a1, old)
		old, existed = x.Delete("a")
		require.False(t, existed)
		require.Nil(t, old)
		require.Zero(t, x.Len())
	})
	t.Run("Replace drops objects missing from the list, and keeps the last of two", func(t *testing.T) {
		x := newPods()
		x.Upsert(b1)
		x.Replace([]*pod{a1, a2})
		require.Equal(t, map[string]*pod{"a": a2}, maps.Collect(x.All()))
	})
	t.Run("objects are yielded in insertion order of their keys", func(t *testing.T) {
		x := newPods()
		for _, name := range []string{"c", "a", "b", "d"} {
			x.Upsert(&pod{name: name})
		}
		x.Upsert(a2)
		require.Equal(t, []string{"c", "a", "b", "d"}, names(x.All()))
		x.Delete("a")
		x.Upsert(a1)
		require.Equal(t, []string{"c", "b", "d", "a"}, names(x.All()))
		x.Replace([]*pod{{name: "e"}, a2, {name: "f"}, {name: "c"}, {name: "e"}})
		require.Equal(t, []string{"c", "a", "e", "f"}, names(x.All()))
		require.NoError(t, cache.CheckInvariants(x))
	})
	t.Run("Replace does not retain the list", func(t *testing.T) {
		x := newPods()
		list := []*pod{a1, b1}
		x.Replace(list)
		clear(list)
		require.Equal(t, map[string]*pod{"a": a1, "b": b1}, maps.Collect(x.All()))
	})
	t.Run("a loop may break, and may write", func(t *testing.T) {
		x := newPods()
		x.Replace([]*pod{a1, b1})
		for name := range x.All() {
			x.Delete(name)
			break
		}
		for name := range x.All() {
			x.Delete(name)
			x.Upsert(a1)
		}
		require.Equal(t, []string{"a"}, names(x.All()))
	})
}

func TestIndex(t *testing.T) {
	t.Run("an object has any number of values, and a value any number of objects", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2", "1"}})
		x.Upsert(&pod{name: "b", nodes: []string{"2"}})
		x.Upsert(&pod{name: "c"})
		require.Equal(t, []string{"a", "b"}, names(byNode.All("2")))
		require.Equal(t, []string{"a"}, names(byNode.All("1")), "a duplicate value counts once")
		require.Equal(t, 1, byNode.Len("1"))
		require.Equal(t, 2, byNode.Len("2"))
		require.Zero(t, byNode.Len("3"))
		require.Empty(t, names(byNode.All("3")))
		require.Equal(t, []string{"1", "2"}, slices.Collect(byNode.Values()))
	})
	t.Run("a value without objects is removed", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "b", nodes: []string{"2"}})
		x.Upsert(&pod{name: "a", nodes: []string{"3"}})
		require.Equal(t, []string{"2", "3"}, slices.Collect(byNode.Values()))
		x.Delete("b")
		require.Equal(t, []string{"3"}, slices.Collect(byNode.Values()))
		x.Replace(nil)
		require.Empty(t, slices.Collect(byNode.Values()))
	})
	t.Run("an index added later has all objects", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "b", nodes: []string{"1"}})
		x.Upsert(&pod{name: "a", nodes: []string{"2", "1"}})
		late := cache.AddIndex(x, func(p *pod) []int { return []int{len(p.nodes)} })
		require.Equal(t, []string{"b", "a"}, names(byNode.All("1")))
		require.Equal(t, []string{"a"}, names(late.All(2)))
		x.Upsert(&pod{name: "a"})
		require.Equal(t, []string{"a"}, names(late.All(0)))
		require.NoError(t, cache.CheckInvariants(x))
	})
	t.Run("an update with the same values keeps the place in the index", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "b", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "a", n: 2, nodes: []string{"2", "1", "2", "3"}})
		require.Equal(t, []string{"a", "b"}, names(byNode.All("1")))
		require.Equal(t, []string{"a", "b"}, names(byNode.All("2")))
		x.Replace([]*pod{{name: "b", nodes: []string{"1"}}, {name: "a", nodes: []string{"1", "2"}}})
		require.Equal(t, []string{"a", "b"}, names(byNode.All("1")))
		require.Equal(t, []string{"a"}, names(byNode.All("2")))
	})
	t.Run("an object mutated in place is still removed from its old buckets", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		p := &pod{name: "a", nodes: []string{"1"}}
		x.Upsert(p)
		p.nodes = []string{"2"}
		x.Upsert(p)
		require.Equal(t, []string{"2"}, slices.Collect(byNode.Values()))
	})
}

func TestPanickingIndexFuncLeavesIndexerUnchanged(t *testing.T) {
	bad := func(p *pod) []string {
		if p.n < 0 {
			panic("no values")
		}
		return p.nodes
	}
	x := newPods()
	first := cache.AddIndex(x, podNodes)
	cache.AddIndex(x, bad)
	good := []*pod{{name: "a", n: 1, nodes: []string{"1"}}, {name: "b", n: 1, nodes: []string{"1", "2"}}}
	x.Replace(good)

	poison := &pod{name: "a", n: -1, nodes: []string{"3"}}
	for what, write := range map[string]func(){
		"Upsert of a known object":  func() { x.Upsert(poison) },
		"Upsert of a new object":    func() { x.Upsert(&pod{name: "c", n: -1, nodes: []string{"4"}}) },
		"Replace":                   func() { x.Replace([]*pod{{name: "d", nodes: []string{"1"}}, poison}) },
		"AddIndex":                  func() { cache.AddIndex(x, func(p *pod) []int { return []int{1 / (len(p.nodes) - 2)} }) },
		"a value that is not equal": func() { cache.AddIndex(x, func(*pod) []float64 { return []float64{math.NaN()} }) },
		"a value without a hash":    func() { cache.AddIndex(x, func(*pod) []any { return []any{func() {}} }) },
	} {
		require.Panics(t, write, what)
		require.Equal(t, map[string]*pod{"a": good[0], "b": good[1]}, maps.Collect(x.All()), what)
		require.Equal(t, []string{"1", "2"}, slices.Collect(first.Values()), what)
		require.Equal(t, []string{"a", "b"}, names(first.All("1")), what)
		x.Upsert(good[1]) // drops the plan that is left
		require.NoError(t, cache.CheckInvariants(x), what)
	}
}

func TestKeysUnequalToThemselvesAreRejected(t *testing.T) {
	x := cache.NewIndexer(func(f float64) float64 { return f })
	require.PanicsWithValue(t, "cache: a key is not equal to itself", func() { x.Upsert(math.NaN()) })
	require.PanicsWithValue(t, "cache: a key is not equal to itself", func() { x.Replace([]float64{1, math.NaN()}) })
	require.Zero(t, x.Len())

	y := cache.NewIndexer(func(v any) any { return v })
	y.Upsert(1)
	slice := []int{1}
	require.Panics(t, func() { y.Upsert(slice) })
	require.Panics(t, func() { y.Get(slice) })
	require.Panics(t, func() { y.Delete(slice) })
	require.Panics(t, func() { y.Replace([]any{slice}) })
	y.Upsert(2) // no lock is left behind
	require.Equal(t, 2, y.Len())
	require.NoError(t, cache.CheckInvariants(y))
}

func TestDeltaFIFORejectsUnequalKeysBeforeAnyChange(t *testing.T) {
	f := must(cache.NewDeltaFIFO(func(v any) any { return v }, cache.DeltaFIFOConfig[any, any]{}))
	for _, bad := range []any{[]int{1}, math.NaN()} {
		require.Panics(t, func() { _ = f.Add(bad, 5) })
		require.Panics(t, func() { _ = f.Replace([]any{1, bad}, 5) })
	}
	require.Zero(t, f.Version())
	require.Zero(t, f.Len())
	require.False(t, f.HasSynced())
}

func TestNilFunctionsPanic(t *testing.T) {
	require.PanicsWithValue(t, "cache: NewIndexer: the key function is nil", func() { cache.NewIndexer[string, *pod](nil) })
	require.PanicsWithValue(t, "cache: NewDeltaFIFO: the key function is nil", func() {
		must(cache.NewDeltaFIFO(nil, cache.DeltaFIFOConfig[string, *pod]{}))
	})
	require.PanicsWithValue(t, "cache: AddIndex: the index function is nil", func() {
		cache.AddIndex[string, string](newPods(), nil)
	})
}

func TestSearchForNaNFindsNothing(t *testing.T) {
	x := cache.NewIndexer(func(f float64) float64 { return f })
	x.Upsert(1)
	ix := cache.AddIndex(x, func(f float64) []float64 { return []float64{f} })
	_, ok := x.Get(math.NaN())
	require.False(t, ok)
	_, ok = x.Delete(math.NaN())
	require.False(t, ok)
	require.Zero(t, ix.Len(math.NaN()))
	for range ix.All(math.NaN()) {
		t.Fatal("found")
	}
	require.Equal(t, 1, x.Len())
}

func TestIndexHasAsksIndexFunc(t *testing.T) {
	byNode := cache.AddIndex(newPods(), podNodes)
	p := &pod{name: "not in the cache", nodes: []string{"1", "2"}}
	require.True(t, byNode.Has(p, "2"))
	require.False(t, byNode.Has(p, "3"))
	require.False(t, byNode.Has(&pod{}, ""))
}

// TestIterationDuringWrites writes in the body of loops that are longer than a batch, and checks the contract:
// an object that exists all the time is yielded once and in order, nothing is yielded twice, and the loop ends.
func TestIterationDuringWrites(t *testing.T) {
	t.Parallel()
	const keys = 200
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := newPair()
		var list []*pod
		for i := range keys {
			list = append(list, &pod{name: fmt.Sprint("k", i), nodes: []string{"1", fmt.Sprint("v", i)}})
		}
		p.replace(list...)
		loops := map[string]struct {
			seq iter.Seq[string]
			now func() []string // the present objects
		}{
			"Indexer.All": {keysOf(p.x.All()), func() []string { return p.model.keys }},
			"Index.All":   {keysOf(p.indexes[0].All("1")), func() []string { return p.model.indexes[0].members["1"] }},
			"Values":      {p.indexes[0].Values(), func() []string { return p.model.indexes[0].order }},
		}
		for _, name := range []string{"Indexer.All", "Index.All", "Values"} {
			loop := loops[name]
			always := slices.Clone(loop.now())
			var got []string
			for s := range loop.seq {
				got = append(got, s)
				if r.IntN(20) > 0 {
					continue
				}
				require.NoError(t, p.randomly(r, 2*keys, len(got)))
				now := setOf(loop.now())
				always = slices.DeleteFunc(always, func(s string) bool { return !now[s] })
			}
			throughout := setOf(always)
			kept := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !throughout[s] })
			if !slices.Equal(kept, always) {
				t.Fatalf("seed %d, %s: %v existed all the time, but %v were yielded", seed, name, always, kept)
			}
			slices.Sort(got)
			require.Len(t, slices.Compact(slices.Clone(got)), len(got), "seed %d, %s: no duplicates", seed, name)
			require.NoError(t, p.check())
		}
	}
}

// setOf returns the set of some keys.
func setOf(keys []string) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}

func keysOf[K, V any](seq iter.Seq2[K, V]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range seq {
			if !yield(k) {
				return
			}
		}
	}
}

func TestIndexYieldsOnlyObjectsWithValue(t *testing.T) {
	for what, leave := range map[string]func(x *cache.Indexer[string, *pod], name string){
		"it gets another value": func(x *cache.Indexer[string, *pod], name string) { x.Upsert(&pod{name: name, nodes: []string{"m"}}) },
		"it is deleted":         func(x *cache.Indexer[string, *pod], name string) { x.Delete(name) },
		"it is added again":     func(x *cache.Indexer[string, *pod], name string) { x.Delete(name); x.Upsert(&pod{name: name}) },
	} {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		for i := range 300 {
			x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n"}})
		}
		var got []string
		for name, p := range byNode.All("n") {
			require.Equal(t, []string{"n"}, p.nodes, what)
			if got = append(got, name); len(got) == 1 {
				for i := 100; i < 290; i++ { // so many that the rest moves up
					leave(x, fmt.Sprint(i))
				}
			}
		}
		require.Equal(t, names(byNode.All("n")), got, what)
	}
}

func TestIterationSkipsNothingBetweenBatches(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 128, 129, 500} {
		x := newPods()
		var want []string
		for i := range n {
			x.Upsert(&pod{name: fmt.Sprint(i)})
			want = append(want, fmt.Sprint(i))
		}
		require.Equal(t, want, names(x.All()))
	}
}

func TestIterationYieldsReaddedKeyOnce(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	for i := range 100 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n"}})
	}
	again := func(name string) {
		x.Delete(name)
		x.Upsert(&pod{name: name, nodes: []string{"n"}})
	}
	n := 0
	for name := range x.All() {
		again(name)
		n++
	}
	require.Equal(t, 100, n)
	n = 0
	for name := range byNode.All("n") {
		again(name)
		n++
	}
	require.Equal(t, 100, n)
	n = 0
	for range byNode.Values() {
		x.Replace(nil)
		x.Upsert(&pod{name: "a", nodes: []string{"n"}})
		n++
	}
	require.Equal(t, 1, n)
}

func TestUserCodeRunsWithoutReaderLocks(t *testing.T) {
	x := newPods()
	reads := 0
	read := func() {
		x.Get("a")
		x.Len()
		for range x.All() {
			break
		}
		reads++
	}
	values := func(p *pod) []string { read(); return p.nodes }
	ix := cache.AddIndex(x, values)
	x.Upsert(&pod{name: "a", nodes: []string{"1"}})
	x.Replace([]*pod{{name: "a", nodes: []string{"1"}}, {name: "b", nodes: []string{"1"}}})
	cache.AddIndex(x, values)
	for range x.All() {
		x.Upsert(&pod{name: "c", nodes: []string{"2"}}) // would wait forever for a reader that holds the lock
	}
	for range ix.All("1") {
		x.Delete("c")
	}
	for range ix.Values() {
		x.Upsert(&pod{name: "d", nodes: []string{"3"}})
	}
	require.Positive(t, reads)
}

// TestReadersNeverSeePartialChange runs readers concurrently with a writer. In each step, the writer keeps two
// invariants: all objects of a list have one number, and an object's number is also its only index value.
func TestReadersNeverSeePartialChange(t *testing.T) {
	x := newPods()
	byNumber := cache.AddIndex(x, func(p *pod) []int { return []int{p.n} })
	list := func(n int) []*pod {
		var list []*pod
		for i := range 50 {
			list = append(list, &pod{name: fmt.Sprint(i), n: n})
		}
		return list
	}
	x.Replace(list(0))

	done := make(chan struct{})
	var wg sync.WaitGroup
	// Each reader reads until the writer is done, and the test waits for all of them.
	reader := func(read func() error) {
		wg.Go(func() {
			for {
				if err := read(); err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched() // the writer must not wait for a processor
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	reader(func() error {
		last := 0
		for _, p := range x.All() {
			if p.n < last {
				return fmt.Errorf("All yields an object of list %d after one of %d", p.n, last)
			}
			last = p.n
		}
		return nil
	})
	reader(func() error {
		s := x.Snapshot()
		numbers := slices.Collect(byNumber.In(s).Values())
		if len(numbers) != 1 || s.Len() != 50 || byNumber.In(s).Len(numbers[0]) != 50 {
			return fmt.Errorf("a snapshot has %d objects of the lists %v", s.Len(), numbers)
		}
		for name, p := range s.All() {
			if q, ok := s.Get(name); !ok || p != q || p.n != numbers[0] {
				return fmt.Errorf("a snapshot has two states of %s, or one of another list", name)
			}
		}
		return nil
	})
	reader(func() error {
		for n := range byNumber.Values() {
			for name, p := range byNumber.All(n) {
				if p.n != n || p.name != name {
					return fmt.Errorf("%s in bucket %d has number %d", name, n, p.n)
				}
			}
		}
		return nil
	})
	reader(func() error {
		first, _ := x.Get("0")
		last, ok := x.Get("49")
		if !ok || last.n < first.n {
			return fmt.Errorf("Get returns %d after %d", last.n, first.n)
		}
		if n := x.Len(); n != 50 {
			return fmt.Errorf("Len returns %d", n)
		}
		return nil
	})
	for n := range 300 {
		x.Replace(list(n + 1))
	}
	close(done)
	wg.Wait()
	require.NoError(t, cache.CheckInvariants(x))
}

func TestConcurrentReadersAndWriters(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	var wg sync.WaitGroup
	for w := range 4 {
		// Writes, reads, ends by itself; the test waits for it.
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 3))
			for i := range 500 {
				name := fmt.Sprint(r.IntN(100))
				switch r.IntN(10) {
				case 0:
					x.Delete(name)
				case 1:
					for range byNode.All("1") {
						x.Get(name)
					}
				case 2:
					for value := range byNode.Values() {
						byNode.Len(value)
					}
				case 3:
					if i%50 == 0 {
						x.Replace([]*pod{{name: name}, {name: "x", nodes: []string{"1"}}})
					}
				default:
					x.Upsert(&pod{name: name, nodes: []string{fmt.Sprint(r.IntN(3))}})
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, cache.CheckInvariants(x))
}

// A key that was deleted and added again has two entries. A renumbering in the middle makes the iteration continue by
// key.
func TestIterationYieldsReaddedKeyOnceAcrossRenumbering(t *testing.T) {
	x := newPods()
	for i := range 100 {
		x.Upsert(&pod{name: fmt.Sprint(i)})
	}
	x.Delete("50")
	x.Upsert(&pod{name: "50"})
	seen := make(map[string]int)
	for name := range x.All() {
		if seen[name]++; len(seen) == 10 {
			for i := 60; i < 100; i++ { // until half of the entries are deleted
				x.Delete(fmt.Sprint(i))
			}
			for i := 10; i < 30; i++ {
				x.Delete(fmt.Sprint(i))
			}
		}
	}
	require.Equal(t, 1, seen["50"])
	require.Len(t, seen, 40)
}

func TestSnapshotIsImmutable(t *testing.T) {
	for what, write := range map[string]func(x *cache.Indexer[string, *pod]){
		"an update":               func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "7", n: 1, nodes: []string{"n"}}) },
		"another value":           func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "7", nodes: []string{"m"}}) },
		"a new object":            func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "new", nodes: []string{"n", "m"}}) },
		"a deletion":              func(x *cache.Indexer[string, *pod]) { x.Delete("7") },
		"one that is added again": func(x *cache.Indexer[string, *pod]) { x.Upsert(first(x.Delete("7"))) },
		"a list":                  func(x *cache.Indexer[string, *pod]) { x.Replace([]*pod{{name: "7", nodes: []string{"m"}}}) },
		"an index added later":    func(x *cache.Indexer[string, *pod]) { cache.AddIndex(x, podNodes) },
		"so many that all has to move": func(x *cache.Indexer[string, *pod]) {
			for i := range 1000 {
				x.Upsert(&pod{name: fmt.Sprint("new", i), nodes: []string{"n", fmt.Sprint(i)}})
			}
		},
		"so few that all has to move": func(x *cache.Indexer[string, *pod]) {
			for i := range 199 {
				x.Delete(fmt.Sprint(i))
			}
		},
	} {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		var want []*pod
		for i := range 200 {
			want = append(want, &pod{name: fmt.Sprint(i), nodes: []string{"n"}})
			x.Upsert(want[i])
		}
		s := x.Snapshot()
		for range 2 {
			write(x)
			i := 0
			for name, p := range s.All() {
				got, ok := s.Get(name)
				require.True(t, ok && got == p && p == want[i] && name == p.name, "%s: object %d", what, i)
				i++
			}
			require.Equal(t, 200, i, what)
			require.Equal(t, 200, s.Len(), what)
			_, ok := s.Get("new")
			require.False(t, ok, what)
			require.Equal(t, []string{"n"}, slices.Collect(byNode.In(s).Values()), what)
			require.Equal(t, 200, byNode.In(s).Len("n"), what)
			require.Equal(t, names(s.All()), names(byNode.In(s).All("n")), what)
			require.Empty(t, names(byNode.In(s).All("m")), what)
			require.NoError(t, cache.CheckInvariants(x), what)
			x.Snapshot() // shares the rest, too
		}
	}
}

func first(p *pod, _ bool) *pod { return p }

func TestSnapshotOmitsLaterIndexes(t *testing.T) {
	x, y := newPods(), newPods()
	byNode := cache.AddIndex(x, podNodes)
	s := x.Snapshot()
	late := cache.AddIndex(x, podNodes)
	other := cache.AddIndex(y, podNodes)
	require.NotPanics(t, func() { byNode.In(s) })
	for what, ix := range map[string]*cache.Index[string, string, *pod]{"late": late, "of another indexer": other} {
		require.PanicsWithValue(t, "cache: Index.In: the snapshot is of another indexer, or older than the index",
			func() { ix.In(s) }, what)
	}
}

func TestSnapshotCopiesFewPointers(t *testing.T) {
	x := newPods()
	cache.AddIndex(x, podNodes)
	for i := range 10_000 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n"}})
	}
	var s *cache.Snapshot[string, *pod]
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { s = x.Snapshot() }), 10.0)
	require.Equal(t, 10_000, s.Len())

	p := &pod{name: "0", nodes: []string{"n"}}
	first := testing.AllocsPerRun(1, func() { x.Snapshot(); x.Upsert(p) })
	taken := testing.AllocsPerRun(1, func() { x.Snapshot() })
	require.Equal(t, 1.0, first-taken, "the first change of an object copies those beside it, once")
	require.Zero(t, testing.AllocsPerRun(10, func() { x.Upsert(p) }))
}

// One writer updates two objects in turn, far apart in the table. Neither update changes an index.
func TestSnapshotIsAtomic(t *testing.T) {
	x := newPods()
	const last = 4000
	for i := range last + 1 {
		x.Upsert(&pod{name: fmt.Sprint(i)})
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { // ends with stop; the test waits for it
		for n := 1; !stop.Load(); n++ {
			x.Upsert(&pod{name: "0", n: n})
			x.Upsert(&pod{name: fmt.Sprint(last), n: n})
		}
	})
	for range 20_000 {
		s := x.Snapshot()
		first, _ := s.Get("0")
		second, _ := s.Get(fmt.Sprint(last))
		if d := first.n - second.n; d != 0 && d != 1 {
			t.Errorf("the first update is %d, the second %d", first.n, second.n)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestIterationAllocatesNothing(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	for i := range 1000 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n", fmt.Sprint("n", i%100)}})
	}
	n := 0
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range x.All() {
			n++
		}
		for range byNode.All("n") {
			n++
		}
		for range byNode.Values() {
			n++
		}
	}))
	require.Equal(t, 11*2101, n)
}

func TestEmptiedStructuresReleaseMemory(t *testing.T) {
	const many = 10000
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	f := newFIFO(x)
	for i := range many {
		p := &pod{name: fmt.Sprint(i), nodes: []string{"all", fmt.Sprint(i)}}
		x.Upsert(p)
		require.NoError(t, f.Add(p, uint64(i)))
	}
	for i := range many - 3 {
		x.Delete(fmt.Sprint(i))
		_, _ = f.TryPop(func(string, cache.Deltas[*pod], bool) error { return nil })
	}
	values, postings, members := byNode.Room("all")
	for what, room := range map[string]int{
		"the indexer": x.Room(), "the values of an index": values, "the postings": postings, "a bucket": members,
		"the queue": f.Room(),
	} {
		require.LessOrEqual(t, room, 100, what)
	}
	require.NoError(t, cache.CheckInvariants(x))
}

func TestShortListDoesNotRetainLongList(t *testing.T) {
	x := newPods()
	list := make([]*pod, 1000)
	for i := range list {
		list[i] = &pod{name: fmt.Sprint(i)}
	}
	freed := make(chan struct{})
	runtime.AddCleanup(list[0], func(freed chan struct{}) { close(freed) }, freed)
	x.Replace(list)
	x.Replace(list[999:])
	list = nil
	for range 10 {
		runtime.GC()
	}
	<-freed
	require.Equal(t, 1, x.Len())
}

func TestGetAndAllNeverBlock(t *testing.T) {
	x := newPods()
	x.Upsert(&pod{name: "a"})
	cache.LockForEver(x)
	_, ok := x.Get("a")
	require.True(t, ok)
	require.Equal(t, 1, x.Len())
	require.Equal(t, []string{"a"}, names(x.All()))
}

func TestUpdateWithoutIndexChangeDoesNotBlockOnIndexReaders(t *testing.T) {
	x := newPods()
	cache.AddIndex(x, podNodes)
	x.Upsert(&pod{name: "a", nodes: []string{"1", "2"}})
	cache.LockReadersOfIndexes(x)
	x.Upsert(&pod{name: "a", n: 1, nodes: []string{"1", "2"}})
	x.Upsert(&pod{name: "a", n: 2, nodes: []string{"2", "1", "2"}})
	p, _ := x.Get("a")
	require.Equal(t, 2, p.n)
}

func TestReadAndUpdateDoNotAllocate(t *testing.T) {
	x := newPods()
	cache.AddIndex(x, podNodes)
	pods := make([]*pod, 1000)
	for i := range pods {
		pods[i] = &pod{name: fmt.Sprint(i), nodes: []string{"n", fmt.Sprint(i % 10)}}
		x.Upsert(pods[i])
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for _, p := range pods {
			x.Upsert(p)
			x.Get(p.name)
		}
	}))
}

func TestRepeatedAddAndDeleteUseBoundedMemory(t *testing.T) {
	x := newPods()
	byNode := cache.AddIndex(x, podNodes)
	for i := range 100 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n"}})
	}
	for i := range 10_000 {
		if i%1000 == 0 {
			x.Snapshot()
		}
		x.Delete("7")
		x.Upsert(&pod{name: "7", nodes: []string{"n", fmt.Sprint(i)}})
	}
	require.NoError(t, cache.CheckInvariants(x))
	values, objects, members := byNode.Room("n")
	require.LessOrEqual(t, max(x.Room(), values, objects, members), 500)
}

// TestReadsAreNeverTornOrStale has one writer, which numbers its writes in ascending order and deletes odd keys now and then, and
// readers without a lock. Whatever the table of the indexer goes through, an even key is found in every read, an object is the one of its
// key, and a reader that has seen a number never sees a lower one for the same key later.
func TestReadsAreNeverTornOrStale(t *testing.T) {
	const keys = 300
	for seed := range uint64(3) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		name := func(i int) string { return fmt.Sprint(i) }
		state := func(i, n int) *pod { return &pod{name: name(i), n: n, nodes: []string{"n", fmt.Sprint("n", i%2, n%3)}} }
		for i := 0; i < keys; i += 2 {
			x.Upsert(state(i, 0))
		}
		done := make(chan struct{})
		var wg sync.WaitGroup
		for reader := range 3 {
			// Reads until the writer is done, and is waited for.
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(reader)))
				seen := make(map[string]int)
				look := func(what, key string, p *pod) bool {
					if p == nil || p.name != key || p.n < seen[key] {
						t.Errorf("%s: %v has the key %s, seen before at %d", what, p, key, seen[key])
						return false
					}
					seen[key] = p.n
					return true
				}
				for {
					select {
					case <-done:
						return
					default:
					}
					for range 50 {
						i := r.IntN(keys)
						p, ok := x.Get(name(i))
						if ok && !look("Get", name(i), p) {
							return
						}
						if !ok && i%2 == 0 {
							t.Errorf("%d exists all the time, but was not found", i)
							return
						}
					}
					even := 0
					for key, p := range x.All() {
						if len(key) > 0 && (key[len(key)-1]-'0')%2 == 0 {
							even++
						}
						if !look("All", key, p) {
							return
						}
					}
					if even != keys/2 {
						t.Errorf("All yields %d of %d objects that exist all the time", even, keys/2)
						return
					}
					even = 0
					for key, p := range byNode.All("n") {
						if !look("Index.All", key, p) {
							return
						}
						if (key[len(key)-1]-'0')%2 == 0 {
							even++
						}
					}
					if even != keys/2 {
						t.Errorf("Index.All yields %d of %d objects that exist all the time", even, keys/2)
						return
					}
					runtime.Gosched() // the writer must not wait for a processor
				}
			})
		}
		r := rand.New(rand.NewPCG(seed, 9))
		for n := 1; n < 3000; n++ {
			switch i := r.IntN(keys); {
			case n%500 == 0: // all odd ones go, so that the others must move
				for i := 1; i < keys; i += 2 {
					x.Delete(name(i))
				}
			case n%300 == 0:
				var list []*pod
				for i := 0; i < keys; i += 1 + r.IntN(2)*(1-i%2) {
					list = append(list, state(i, n))
				}
				for i := 0; i < keys; i += 2 {
					list = append(list, state(i, n))
				}
				x.Replace(list)
			case n%50 == 0:
				x.Snapshot()
			case i%2 == 1 && n%3 == 0:
				x.Delete(name(i))
			default:
				x.Upsert(state(i, n))
			}
		}
		close(done)
		wg.Wait()
		require.NoError(t, cache.CheckInvariants(x))
	}
}

// TestNonPointerObjectsAreNotTorn has objects of many words, and interfaces, so a read could be torn.
func TestNonPointerObjectsAreNotTorn(t *testing.T) {
	type wide struct {
		key  string
		n    int
		same [6]int
	}
	x := cache.NewIndexer(func(w wide) string { return w.key })
	y := cache.NewIndexer(func(v any) int { return 0 })
	x.Upsert(wide{key: "a"})
	y.Upsert(0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	// Reads until the writer is done, and is waited for.
	wg.Go(func() {
		for {
			w, _ := x.Get("a")
			for _, n := range w.same {
				if n != w.n {
					t.Errorf("%v is torn", w)
					return
				}
			}
			switch v, _ := y.Get(0); v := v.(type) {
			case int:
			case string:
				if v != "text" {
					t.Errorf("%q is torn", v)
					return
				}
			default:
				t.Errorf("%v is torn", v)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := range 2000 {
		x.Upsert(wide{key: "a", n: n, same: [6]int{n, n, n, n, n, n}})
		y.Upsert([]any{n, "text"}[n%2])
	}
	close(done)
	wg.Wait()
	y.Upsert(nil)
	v, ok := y.Get(0)
	require.True(t, ok && v == nil, "nil is an object")
	y.Delete(0)
	_, ok = y.Get(0)
	require.False(t, ok)
}

// TestSnapshotsWhileTablesGrow has a writer that makes all tables grow and drop deleted entries. Another goroutine
// takes snapshots concurrently and reads each one twice.
func TestSnapshotsWhileTablesGrow(t *testing.T) {
	for range 10 {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		read := func(s *cache.Snapshot[string, *pod]) (seen []*pod) {
			for _, p := range s.All() {
				seen = append(seen, p)
			}
			for _, p := range byNode.In(s).All("n") {
				seen = append(seen, p)
			}
			for value := range byNode.In(s).Values() {
				seen = append(seen, &pod{name: value, n: byNode.In(s).Len(value)})
			}
			return seen
		}
		same := func(p, q *pod) bool { return p == q || p.nodes == nil && p.name == q.name && p.n == q.n }
		done := make(chan struct{})
		var wg sync.WaitGroup
		// Takes snapshots until the writer is done, and is waited for.
		wg.Go(func() {
			var taken []*cache.Snapshot[string, *pod]
			var first [][]*pod
			for more := true; more; {
				select {
				case <-done:
					more = false
				default:
				}
				s := x.Snapshot()
				taken, first = append(taken, s), append(first, read(s))
			}
			for i, s := range taken {
				if !slices.EqualFunc(first[i], read(s), same) {
					t.Errorf("snapshot %d of %d has changed", i, len(taken))
					return
				}
			}
		})
		for n := range 2 {
			for i := range 300 {
				x.Upsert(&pod{name: fmt.Sprint(i), n: n, nodes: []string{"n", fmt.Sprint("v", i)}})
				x.Upsert(&pod{name: fmt.Sprint(i / 2), n: n, nodes: []string{"n", fmt.Sprint("w", i)}})
			}
			for i := range 250 {
				x.Delete(fmt.Sprint(i))
			}
		}
		close(done)
		wg.Wait()
		require.NoError(t, cache.CheckInvariants(x))
	}
}

// The model is a map of slices. Objects have no, one, or several postings by turns.
func TestPostingsMatchModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		table := cache.NewPostings(maphash.MakeSeed(), r.IntN(100))
		model := make(map[uint32][]cache.Posting)
		for range 300 {
			n := r.Uint32N(150)
			var ps []cache.Posting
			for _, bucket := range r.Perm(5)[:r.IntN(4)] {
				ps = append(ps, cache.Posting{uint32(bucket + 1), r.Uint32N(9)})
			}
			table.Set(n, ps)
			model[n] = slices.Clone(ps)
			clear(ps) // the table has a copy
			if err := table.Check(); err != nil {
				t.Fatal(err)
			}
			if n := r.Uint32N(150); len(model[n]) > 0 { // a place may be changed in the table
				i := r.IntN(len(model[n]))
				model[n][i][1] = r.Uint32N(9)
				table.Move(n, model[n][i][0], model[n][i][1])
			}
			for n := range uint32(200) {
				want := model[n]
				if got := table.Of(n); !slices.Equal(got, want) {
					t.Fatalf("seed %d: Of(%d) = %v, want %v", seed, n, got, want)
				}
				var only uint32
				if len(want) == 1 {
					only = want[0][0]
				}
				if got := table.Only(n); got != only {
					t.Fatalf("seed %d: Only(%d) = %d, want %d", seed, n, got, only)
				}
				for bucket := range uint32(7) {
					i := slices.IndexFunc(want, func(p cache.Posting) bool { return p[0] == bucket })
					if got, ok := table.In(n, bucket); ok != (i >= 0) || ok && got != want[i] {
						t.Fatalf("seed %d: In(%d, %d) = %v, want %v", seed, n, bucket, got, want)
					}
				}
			}
		}
	}
}
