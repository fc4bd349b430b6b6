package cache_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/cache"
)

func TestSnapshotIsImmutable(t *testing.T) {
	for what, write := range map[string]func(x *cache.Indexer[string, *pod]){
		"an update":               func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "7", n: 1, nodes: []string{"n"}}) },
		"another value":           func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "7", nodes: []string{"m"}}) },
		"a new object":            func(x *cache.Indexer[string, *pod]) { x.Upsert(&pod{name: "new", nodes: []string{"n", "m"}}) },
		"a deletion":              func(x *cache.Indexer[string, *pod]) { x.Delete("7") },
		"one that is added again": func(x *cache.Indexer[string, *pod]) { x.Upsert(gone(x.Delete("7"))) },
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
				if !ok || got != p || p != want[i] || name != p.name {
					t.Fatalf("%s: object %d: All yields %q, %v; Get returns %v, %v; want %v", what, i, name, p, got, ok, want[i])
				}
				i++
			}
			if i != 200 {
				t.Fatalf("%v: i = %v, want 200", what, i)
			}
			if got := s.Len(); got != 200 {
				t.Fatalf("%v: s.Len() = %v, want 200", what, got)
			}
			_, ok := s.Get("new")
			if ok {
				t.Fatalf("%v: ok is true", what)
			}
			if got, want := slices.Collect(byNode.In(s).Values()), ([]string{"n"}); !slices.Equal(got, want) {
				t.Fatalf("%v: slices.Collect(byNode.In(s).Values()) = %q, want %q", what, got, want)
			}
			if got := byNode.In(s).Len("n"); got != 200 {
				t.Fatalf(`%v: byNode.In(s).Len("n") = %v, want 200`, what, got)
			}
			if diff := cmp.Diff(names(s.All()), names(byNode.In(s).All("n"))); diff != "" {
				t.Fatalf("%v: names(byNode.In(s).All(\"n\")) mismatch (-want +got):\n%s", what, diff)
			}
			if got := names(byNode.In(s).All("m")); len(got) != 0 {
				t.Fatalf(`%v: names(byNode.In(s).All("m")) = %v, want none`, what, got)
			}
			if err := cache.CheckInvariants(x); err != nil {
				t.Fatalf("%v: cache.CheckInvariants(x): %v", what, err)
			}
			x.Snapshot() // shares the rest, too
		}
	}
}

func gone(p *pod, _ bool) *pod { return p }

func TestSnapshotOmitsLaterIndexes(t *testing.T) {
	x, y := newPods(), newPods()
	byNode := cache.AddIndex(x, podNodes)
	s := x.Snapshot()
	late := cache.AddIndex(x, podNodes)
	other := cache.AddIndex(y, podNodes)
	byNode.In(s)
	for what, ix := range map[string]*cache.Index[string, string, *pod]{"late": late, "of another indexer": other} {
		if got, want := panicOf(func() { ix.In(s) }), "cache: Index.In: the snapshot is of another indexer, or older than the index"; got != want {
			t.Fatalf("%v: panic = %v, want %v", what, got, want)
		}
	}
}

func TestSnapshotCopiesFewPointers(t *testing.T) {
	x := newPods()
	cache.AddIndex(x, podNodes)
	for i := range 10_000 {
		x.Upsert(&pod{name: fmt.Sprint(i), nodes: []string{"n"}})
	}
	var s *cache.Snapshot[string, *pod]
	if got := testing.AllocsPerRun(10, func() { s = x.Snapshot() }); got > 10.0 {
		t.Fatalf("testing.AllocsPerRun = %v, want at most 10.0", got)
	}
	if got := s.Len(); got != 10_000 {
		t.Fatalf("s.Len() = %v, want 10_000", got)
	}

	p := &pod{name: "0", nodes: []string{"n"}}
	first := testing.AllocsPerRun(1, func() { x.Snapshot(); x.Upsert(p) })
	taken := testing.AllocsPerRun(1, func() { x.Snapshot() })
	if got := first - taken; got != 1.0 {
		t.Fatalf("the first change of an object copies those beside it, once: first-taken = %v, want 1.0", got)
	}
	if got := testing.AllocsPerRun(10, func() { x.Upsert(p) }); got != 0 {
		t.Fatalf("testing.AllocsPerRun = %v, want 0", got)
	}
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
