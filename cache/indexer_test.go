package cache_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

// pod is the object of the tests. Its number tells one state of it from another.
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
