package cache_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/stretchr/testify/require"
)

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
