package cache_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
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

func gone(p *pod, _ bool) *pod { return p }

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
