package cache_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

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
			for i := 60; i < 100; i++ { // until half of the entries are gone
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
