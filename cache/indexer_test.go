package cache_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
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
		if ok {
			t.Fatal("ok is true")
		}
		if got != nil {
			t.Fatalf("got = %v, want nil", got)
		}
	})
	t.Run("Upsert returns the previous object", func(t *testing.T) {
		x := newPods()
		old, existed := x.Upsert(a1)
		if existed {
			t.Fatal("existed is true")
		}
		if old != nil {
			t.Fatalf("old = %v, want nil", old)
		}
		old, existed = x.Upsert(a2)
		if !existed {
			t.Fatal("existed is false")
		}
		if old != a1 {
			t.Fatalf("old = %p, want %p", old, a1)
		}
		got, ok := x.Get("a")
		if !ok {
			t.Fatal("ok is false")
		}
		if got != a2 {
			t.Fatalf("got = %p, want %p", got, a2)
		}
		if got := x.Len(); got != 1 {
			t.Fatalf("x.Len() = %v, want 1", got)
		}
	})
	t.Run("Delete returns the deleted object, or false if there is none", func(t *testing.T) {
		x := newPods()
		x.Upsert(a1)
		old, existed := x.Delete("a")
		if !existed {
			t.Fatal("existed is false")
		}
		if old != a1 {
			t.Fatalf("old = %p, want %p", old, a1)
		}
		old, existed = x.Delete("a")
		if existed {
			t.Fatal("existed is true")
		}
		if old != nil {
			t.Fatalf("old = %v, want nil", old)
		}
		if got := x.Len(); got != 0 {
			t.Fatalf("x.Len() = %v, want 0", got)
		}
	})
	t.Run("Replace drops objects missing from the list, and keeps the last of two", func(t *testing.T) {
		x := newPods()
		x.Upsert(b1)
		x.Replace([]*pod{a1, a2})
		if diff := cmp.Diff(map[string]*pod{"a": a2}, maps.Collect(x.All()), cmp.AllowUnexported(pod{})); diff != "" {
			t.Fatalf("maps.Collect(x.All()) mismatch (-want +got):\n%s", diff)
		}
	})
	t.Run("objects are yielded in insertion order of their keys", func(t *testing.T) {
		x := newPods()
		for _, name := range []string{"c", "a", "b", "d"} {
			x.Upsert(&pod{name: name})
		}
		x.Upsert(a2)
		if got, want := names(x.All()), ([]string{"c", "a", "b", "d"}); !slices.Equal(got, want) {
			t.Fatalf("names(x.All()) = %q, want %q", got, want)
		}
		x.Delete("a")
		x.Upsert(a1)
		if got, want := names(x.All()), ([]string{"c", "b", "d", "a"}); !slices.Equal(got, want) {
			t.Fatalf("names(x.All()) = %q, want %q", got, want)
		}
		x.Replace([]*pod{{name: "e"}, a2, {name: "f"}, {name: "c"}, {name: "e"}})
		if got, want := names(x.All()), ([]string{"c", "a", "e", "f"}); !slices.Equal(got, want) {
			t.Fatalf("names(x.All()) = %q, want %q", got, want)
		}
		if err := cache.CheckInvariants(x); err != nil {
			t.Fatalf("cache.CheckInvariants(x): %v", err)
		}
	})
	t.Run("Replace does not retain the list", func(t *testing.T) {
		x := newPods()
		list := []*pod{a1, b1}
		x.Replace(list)
		clear(list)
		if diff := cmp.Diff(map[string]*pod{"a": a1, "b": b1}, maps.Collect(x.All()), cmp.AllowUnexported(pod{})); diff != "" {
			t.Fatalf("maps.Collect(x.All()) mismatch (-want +got):\n%s", diff)
		}
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
		if got, want := names(x.All()), ([]string{"a"}); !slices.Equal(got, want) {
			t.Fatalf("names(x.All()) = %q, want %q", got, want)
		}
	})
}

func TestIndex(t *testing.T) {
	t.Run("an object has any number of values, and a value any number of objects", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2", "1"}})
		x.Upsert(&pod{name: "b", nodes: []string{"2"}})
		x.Upsert(&pod{name: "c"})
		if got, want := names(byNode.All("2")), ([]string{"a", "b"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("2")) = %q, want %q`, got, want)
		}
		if got, want := names(byNode.All("1")), ([]string{"a"}); !slices.Equal(got, want) {
			t.Fatalf(`a duplicate value counts once: names(byNode.All("1")) = %q, want %q`, got, want)
		}
		if got := byNode.Len("1"); got != 1 {
			t.Fatalf(`byNode.Len("1") = %v, want 1`, got)
		}
		if got := byNode.Len("2"); got != 2 {
			t.Fatalf(`byNode.Len("2") = %v, want 2`, got)
		}
		if got := byNode.Len("3"); got != 0 {
			t.Fatalf(`byNode.Len("3") = %v, want 0`, got)
		}
		if got := names(byNode.All("3")); len(got) != 0 {
			t.Fatalf(`names(byNode.All("3")) = %v, want none`, got)
		}
		if got, want := slices.Collect(byNode.Values()), ([]string{"1", "2"}); !slices.Equal(got, want) {
			t.Fatalf("slices.Collect(byNode.Values()) = %q, want %q", got, want)
		}
	})
	t.Run("a value without objects is removed", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "b", nodes: []string{"2"}})
		x.Upsert(&pod{name: "a", nodes: []string{"3"}})
		if got, want := slices.Collect(byNode.Values()), ([]string{"2", "3"}); !slices.Equal(got, want) {
			t.Fatalf("slices.Collect(byNode.Values()) = %q, want %q", got, want)
		}
		x.Delete("b")
		if got, want := slices.Collect(byNode.Values()), ([]string{"3"}); !slices.Equal(got, want) {
			t.Fatalf("slices.Collect(byNode.Values()) = %q, want %q", got, want)
		}
		x.Replace(nil)
		if got := slices.Collect(byNode.Values()); len(got) != 0 {
			t.Fatalf("slices.Collect(byNode.Values()) = %v, want none", got)
		}
	})
	t.Run("an index added later has all objects", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "b", nodes: []string{"1"}})
		x.Upsert(&pod{name: "a", nodes: []string{"2", "1"}})
		late := cache.AddIndex(x, func(p *pod) []int { return []int{len(p.nodes)} })
		if got, want := names(byNode.All("1")), ([]string{"b", "a"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("1")) = %q, want %q`, got, want)
		}
		if got, want := names(late.All(2)), ([]string{"a"}); !slices.Equal(got, want) {
			t.Fatalf("names(late.All(2)) = %q, want %q", got, want)
		}
		x.Upsert(&pod{name: "a"})
		if got, want := names(late.All(0)), ([]string{"a"}); !slices.Equal(got, want) {
			t.Fatalf("names(late.All(0)) = %q, want %q", got, want)
		}
		if err := cache.CheckInvariants(x); err != nil {
			t.Fatalf("cache.CheckInvariants(x): %v", err)
		}
	})
	t.Run("an update with the same values keeps the place in the index", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		x.Upsert(&pod{name: "a", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "b", nodes: []string{"1", "2"}})
		x.Upsert(&pod{name: "a", n: 2, nodes: []string{"2", "1", "2", "3"}})
		if got, want := names(byNode.All("1")), ([]string{"a", "b"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("1")) = %q, want %q`, got, want)
		}
		if got, want := names(byNode.All("2")), ([]string{"a", "b"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("2")) = %q, want %q`, got, want)
		}
		x.Replace([]*pod{{name: "b", nodes: []string{"1"}}, {name: "a", nodes: []string{"1", "2"}}})
		if got, want := names(byNode.All("1")), ([]string{"a", "b"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("1")) = %q, want %q`, got, want)
		}
		if got, want := names(byNode.All("2")), ([]string{"a"}); !slices.Equal(got, want) {
			t.Fatalf(`names(byNode.All("2")) = %q, want %q`, got, want)
		}
	})
	t.Run("an object mutated in place is still removed from its old buckets", func(t *testing.T) {
		x := newPods()
		byNode := cache.AddIndex(x, podNodes)
		p := &pod{name: "a", nodes: []string{"1"}}
		x.Upsert(p)
		p.nodes = []string{"2"}
		x.Upsert(p)
		if got, want := slices.Collect(byNode.Values()), ([]string{"2"}); !slices.Equal(got, want) {
			t.Fatalf("slices.Collect(byNode.Values()) = %q, want %q", got, want)
		}
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
		if panicOf(write) == nil {
			t.Fatalf("%v: no panic", what)
		}
		if diff := cmp.Diff(map[string]*pod{"a": good[0], "b": good[1]}, maps.Collect(x.All()), cmp.AllowUnexported(pod{})); diff != "" {
			t.Fatalf("%v: maps.Collect(x.All()) mismatch (-want +got):\n%s", what, diff)
		}
		if got, want := slices.Collect(first.Values()), ([]string{"1", "2"}); !slices.Equal(got, want) {
			t.Fatalf("%v: slices.Collect(first.Values()) = %q, want %q", what, got, want)
		}
		if got, want := names(first.All("1")), ([]string{"a", "b"}); !slices.Equal(got, want) {
			t.Fatalf(`%v: names(first.All("1")) = %q, want %q`, what, got, want)
		}
		x.Upsert(good[1]) // drops the plan that is left
		if err := cache.CheckInvariants(x); err != nil {
			t.Fatalf("%v: cache.CheckInvariants(x): %v", what, err)
		}
	}
}

func TestKeysUnequalToThemselvesAreRejected(t *testing.T) {
	x := cache.NewIndexer(func(f float64) float64 { return f })
	if got, want := panicOf(func() { x.Upsert(math.NaN()) }), "cache: a key is not equal to itself"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
	if got, want := panicOf(func() { x.Replace([]float64{1, math.NaN()}) }), "cache: a key is not equal to itself"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
	if got := x.Len(); got != 0 {
		t.Fatalf("x.Len() = %v, want 0", got)
	}

	y := cache.NewIndexer(func(v any) any { return v })
	y.Upsert(1)
	slice := []int{1}
	if panicOf(func() { y.Upsert(slice) }) == nil {
		t.Fatal("no panic")
	}
	if panicOf(func() { y.Get(slice) }) == nil {
		t.Fatal("no panic")
	}
	if panicOf(func() { y.Delete(slice) }) == nil {
		t.Fatal("no panic")
	}
	if panicOf(func() { y.Replace([]any{slice}) }) == nil {
		t.Fatal("no panic")
	}
	y.Upsert(2) // no lock is left behind
	if got := y.Len(); got != 2 {
		t.Fatalf("y.Len() = %v, want 2", got)
	}
	if err := cache.CheckInvariants(y); err != nil {
		t.Fatalf("cache.CheckInvariants(y): %v", err)
	}
}

func TestDeltaFIFORejectsUnequalKeysBeforeAnyChange(t *testing.T) {
	f := must(cache.NewDeltaFIFO(func(v any) any { return v }, cache.DeltaFIFOConfig[any, any]{}))
	for _, bad := range []any{[]int{1}, math.NaN()} {
		if panicOf(func() { _ = f.Add(bad, 5) }) == nil {
			t.Fatal("no panic")
		}
		if panicOf(func() { _ = f.Replace([]any{1, bad}, 5) }) == nil {
			t.Fatal("no panic")
		}
	}
	if got := f.Version(); got != 0 {
		t.Fatalf("f.Version() = %v, want 0", got)
	}
	if got := f.Len(); got != 0 {
		t.Fatalf("f.Len() = %v, want 0", got)
	}
	if f.HasSynced() {
		t.Fatal("f.HasSynced() is true")
	}
}

func TestNilFunctionsPanic(t *testing.T) {
	if got, want := panicOf(func() { cache.NewIndexer[string, *pod](nil) }), "cache: NewIndexer: the key function is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
	if got, want := panicOf(func() {
		must(cache.NewDeltaFIFO(nil, cache.DeltaFIFOConfig[string, *pod]{}))
	}), "cache: NewDeltaFIFO: the key function is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
	if got, want := panicOf(func() {
		cache.AddIndex[string, string](newPods(), nil)
	}), "cache: AddIndex: the index function is nil"; got != want {
		t.Fatalf("panic = %v, want %v", got, want)
	}
}

// panicOf returns the value with which f panics.
func panicOf(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
