package bench_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	clientgo "k8s.io/client-go/tools/cache"

	"github.com/setpoint-go/setpoint/cache"
)

// perNode is how many objects have the same value in the first index.
const perNode = 100

// cached is an object of a cache. The second index is by team, of which there are ten. The values are arrays, so that an
// index function can return them without an allocation of its own.
type cached struct {
	key        string
	node, team [1]string
}

// mirror is the common interface of the indexers. All and ByNode visit each object and count them.
type mirror interface {
	Upsert(obj *cached)
	Get(key string) *cached
	All() int
	ByNode(node string) int
	ByTeam(team string) int
}

type mirrorImplementation struct {
	name    string
	indexed bool
	new     func() mirror
}

var mirrors = []mirrorImplementation{
	{"setpoint", true, func() mirror { return newSetpointMirror() }},
	{"clientgo", true, func() mirror { return newClientgoMirror() }},
	{"floor", false, func() mirror { return &floorMirror{objs: make(map[string]*cached)} }},
}

// BenchmarkCacheUpdate measures the update of an object whose values of both indexes stay the same.
func BenchmarkCacheUpdate(b *testing.B) {
	update := func(b *testing.B, m mirror, objs []*cached) {
		again := make([]*cached, len(objs))
		for i, obj := range objs {
			fresh := *obj
			again[i] = &fresh
		}
		next := cyclic(len(objs))
		last := 0
		for b.Loop() {
			last = next()
			m.Upsert(again[last])
		}
		require.Same(b, again[last], m.Get(again[last].key))
	}
	sizes := []int{10_000, 100_000, million}
	forEachMirror(b, sizes, false, update)
	for _, size := range sizes {
		objs := makeCached(size)
		b.Run(fmt.Sprintf("size=%d/impl=floor-indexes", size), func(b *testing.B) {
			m := &floorIndexed{
				floorMirror{objs: make(map[string]*cached)},
				func(obj *cached) []string { return obj.node[:] }, func(obj *cached) []string { return obj.team[:] },
			}
			for _, obj := range objs {
				m.Upsert(obj)
			}
			b.ReportAllocs()
			update(b, m, objs)
		})
	}
}

// BenchmarkCacheGet measures a read without concurrent writes.
func BenchmarkCacheGet(b *testing.B) {
	forEachMirror(b, []int{10_000, 100_000, million}, false, get)
}

// BenchmarkCacheGetWhileWritten measures a read while one goroutine writes without a pause.
func BenchmarkCacheGetWhileWritten(b *testing.B) {
	forEachMirror(b, []int{100_000}, false, func(b *testing.B, m mirror, objs []*cached) {
		var stop atomic.Bool
		var wg sync.WaitGroup
		writes := 0
		// Writes until the reads are over. The benchmark waits for it.
		wg.Go(func() {
			for next := cyclic(len(objs)); !stop.Load(); writes++ {
				m.Upsert(objs[next()])
			}
		})
		get(b, m, objs)
		stop.Store(true)
		wg.Wait()
		b.ReportMetric(float64(writes)/b.Elapsed().Seconds(), "writes/s")
	})
}

func get(b *testing.B, m mirror, objs []*cached) {
	next := cyclic(len(objs))
	for b.Loop() {
		if obj := objs[next()]; m.Get(obj.key) == nil {
			b.Fatalf("%s is missing", obj.key)
		}
	}
}

// BenchmarkCacheByIndex measures a read of the 100 objects that have one value. It asks for 1,000 values in turn, in no particular order,
// so that the objects of a value are not still in the processor's cache.
func BenchmarkCacheByIndex(b *testing.B) {
	const size = 100_000
	byNode := func(b *testing.B, m mirror, objs []*cached) {
		next := shuffled(size / perNode)
		for b.Loop() {
			if n := m.ByNode(objs[next()].node[0]); n != perNode {
				b.Fatalf("%d objects, want %d", n, perNode)
			}
		}
	}
	forEachMirror(b, []int{size}, true, byNode)
	b.Run(fmt.Sprintf("size=%d/impl=floor", size), func(b *testing.B) {
		objs := makeCached(size)
		byNode(b, newFloorIndex(objs), objs)
	})
}

// BenchmarkCacheAll measures a read of all objects.
func BenchmarkCacheAll(b *testing.B) {
	forEachMirror(b, []int{10_000, 100_000, million}, false, func(b *testing.B, m mirror, objs []*cached) {
		for b.Loop() {
			if n := m.All(); n != len(objs) {
				b.Fatalf("%d objects, want %d", n, len(objs))
			}
		}
	})
}

// BenchmarkCacheSnapshot measures a snapshot with two indexes, and the update of one object after it, which copies the parts that the
// snapshot shares. The others have none: a list of client-go is a copy.
func BenchmarkCacheSnapshot(b *testing.B) {
	for _, size := range []int{10_000, 100_000, million} {
		objs := makeCached(size)
		b.Run(fmt.Sprintf("size=%d/impl=setpoint", size), func(b *testing.B) {
			m := newSetpointMirror()
			for _, obj := range objs {
				m.Upsert(obj)
			}
			b.ReportAllocs()
			next := cyclic(len(objs))
			for b.Loop() {
				s := m.objs.Snapshot()
				obj := objs[next()]
				m.Upsert(obj)
				if s.Len() != size || m.byTeam.In(s).Len(obj.team[0]) != size/10 {
					b.Fatal("the snapshot lacks something")
				}
			}
		})
	}
}

// BenchmarkCacheWriteWhileListed measures writes while a number of readers read all of 160,000 objects without a
// pause.
func BenchmarkCacheWriteWhileListed(b *testing.B) {
	for _, readers := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			forEachMirror(b, []int{160_000}, false, func(b *testing.B, m mirror, objs []*cached) {
				var stop atomic.Bool
				var lists, wrong atomic.Int64
				var wg sync.WaitGroup
				for range readers {
					// Reads until the writes are over. The benchmark waits for it.
					wg.Go(func() {
						for !stop.Load() {
							if m.All() != len(objs) {
								wrong.Add(1)
							}
							lists.Add(1)
						}
					})
				}
				next := cyclic(len(objs))
				for b.Loop() {
					m.Upsert(objs[next()])
				}
				stop.Store(true)
				wg.Wait()
				require.Zero(b, wrong.Load(), "every list has every object")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
				b.ReportMetric(float64(lists.Load())/b.Elapsed().Seconds(), "lists/s")
			})
		})
	}
}

// BenchmarkCacheMemory measures the memory of an indexer with two indexes for each object, without the object and its key.
// The floor has no index.
func BenchmarkCacheMemory(b *testing.B) {
	for _, size := range []int{10_000, 100_000, million} {
		objs := makeCached(size)
		for _, impl := range mirrors {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				var bytes float64
				for b.Loop() {
					before := heap()
					m := impl.new()
					for _, obj := range objs {
						m.Upsert(obj)
					}
					bytes = float64(heap()) - float64(before)
					require.Equal(b, size, m.All())
				}
				runtime.KeepAlive(objs)
				b.ReportMetric(bytes/float64(size), "B/object")
			})
		}
	}
}

func TestEveryCacheDoesTheSameWork(t *testing.T) {
	objs := makeCached(1000)
	for _, impl := range mirrors {
		t.Run(impl.name, func(t *testing.T) {
			m := impl.new()
			for range 2 {
				for _, obj := range objs {
					m.Upsert(obj)
				}
			}
			require.Nil(t, m.Get("no such key"))
			require.Same(t, objs[7], m.Get(objs[7].key))
			require.Equal(t, len(objs), m.All())
			if impl.indexed {
				require.Equal(t, perNode, m.ByNode(objs[7].node[0]))
				require.Equal(t, len(objs)/10, m.ByTeam(objs[7].team[0]))
				require.Zero(t, m.ByNode("no such node"))
			}
		})
	}
}

// forEachMirror runs a benchmark on each implementation, filled to each size.
func forEachMirror(b *testing.B, sizes []int, indexed bool, run func(b *testing.B, m mirror, objs []*cached)) {
	for _, size := range sizes {
		objs := makeCached(size)
		for _, impl := range mirrors {
			if indexed && !impl.indexed {
				continue
			}
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				m := impl.new()
				for _, obj := range objs {
					m.Upsert(obj)
				}
				b.ReportAllocs()
				run(b, m, objs)
				if n := m.All(); n != size {
					b.Fatalf("%d objects, want %d", n, size)
				}
			})
		}
	}
}

func makeCached(n int) []*cached {
	objs := make([]*cached, n)
	for i, key := range makeKeys(n) {
		objs[i] = &cached{key: key, node: [1]string{fmt.Sprint("node-", i%(n/perNode))}, team: [1]string{fmt.Sprint("team-", i%10)}}
	}
	return objs
}

// cyclic returns the numbers below n in turn, again and again.
func cyclic(n int) func() int {
	i := -1
	return func() int {
		if i++; i == n {
			i = 0
		}
		return i
	}
}

// shuffled returns the numbers below n in one order that has no pattern, again and again.
func shuffled(n int) func() int {
	order := rand.New(rand.NewPCG(1, 1)).Perm(n)
	next := cyclic(n)
	return func() int { return order[next()] }
}

type setpointMirror struct {
	objs   *cache.Indexer[string, *cached]
	byNode *cache.Index[string, string, *cached]
	byTeam *cache.Index[string, string, *cached]
}

func newSetpointMirror() *setpointMirror {
	objs := cache.NewIndexer(func(obj *cached) string { return obj.key })
	return &setpointMirror{
		objs:   objs,
		byNode: cache.AddIndex(objs, func(obj *cached) []string { return obj.node[:] }),
		byTeam: cache.AddIndex(objs, func(obj *cached) []string { return obj.team[:] }),
	}
}

func (m *setpointMirror) Upsert(obj *cached) { m.objs.Upsert(obj) }

func (m *setpointMirror) Get(key string) *cached {
	obj, _ := m.objs.Get(key)
	return obj
}

func (m *setpointMirror) All() (n int) {
	for _, obj := range m.objs.All() {
		n += look(obj)
	}
	return n
}

func (m *setpointMirror) ByNode(node string) (n int) {
	for _, obj := range m.byNode.All(node) {
		n += look(obj)
	}
	return n
}

func (m *setpointMirror) ByTeam(team string) (n int) {
	for _, obj := range m.byTeam.All(team) {
		n += look(obj)
	}
	return n
}

type clientgoMirror struct{ objs clientgo.Indexer }

func newClientgoMirror() *clientgoMirror {
	key := func(obj any) (string, error) { return obj.(*cached).key, nil }
	return &clientgoMirror{clientgo.NewIndexer(key, clientgo.Indexers{
		"node": func(obj any) ([]string, error) { return obj.(*cached).node[:], nil },
		"team": func(obj any) ([]string, error) { return obj.(*cached).team[:], nil },
	})}
}

func (m *clientgoMirror) Upsert(obj *cached) {
	if err := m.objs.Update(obj); err != nil {
		panic(err)
	}
}

func (m *clientgoMirror) Get(key string) *cached {
	obj, ok, err := m.objs.GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return obj.(*cached)
}

func (m *clientgoMirror) All() int { return lookAll(m.objs.List(), nil) }

func (m *clientgoMirror) ByNode(node string) int { return lookAll(m.objs.ByIndex("node", node)) }

func (m *clientgoMirror) ByTeam(team string) int { return lookAll(m.objs.ByIndex("team", team)) }

func lookAll(objs []any, err error) (n int) {
	if err != nil {
		panic(err)
	}
	for _, obj := range objs {
		n += look(obj.(*cached))
	}
	return n
}

// look is the work of a reader on an object: it returns 1 for every object.
func look(obj *cached) int {
	if obj == nil {
		return 0
	}
	return 1
}

// floorMirror is the minimum cost of a cache: a map and a lock that is held during a list.
type floorMirror struct {
	mu   sync.RWMutex
	objs map[string]*cached // guarded by mu
}

func (m *floorMirror) Upsert(obj *cached) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objs[obj.key] = obj
}

func (m *floorMirror) Get(key string) *cached {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.objs[key]
}

func (m *floorMirror) All() (n int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, obj := range m.objs {
		n += look(obj)
	}
	return n
}

func (m *floorMirror) ByNode(string) int { panic("the floor has no index") }

// floorIndexed is the minimum cost of an update with two indexes that changes no value: it finds the old object, and compares its values
// with those of the new one.
type floorIndexed struct {
	floorMirror
	byNode, byTeam func(*cached) []string // variables, as in an index: the compiler does not know them
}

func (*floorIndexed) same(values func(*cached) []string, a, b *cached) bool {
	return slices.Equal(values(a), values(b))
}

func (m *floorIndexed) Upsert(obj *cached) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.objs[obj.key]; old != nil && (!m.same(m.byNode, old, obj) || !m.same(m.byTeam, old, obj)) {
		panic("the floor has no index to change")
	}
	m.objs[obj.key] = obj
}

// floorIndex is the minimum cost of reading an index: a map of slices of pointers, and a function that is called with each. It is never
// written.
type floorIndex struct {
	floorMirror
	byNode map[string][]*cached
}

func newFloorIndex(objs []*cached) *floorIndex {
	m := &floorIndex{byNode: make(map[string][]*cached)}
	for _, obj := range objs {
		m.byNode[obj.node[0]] = append(m.byNode[obj.node[0]], obj)
	}
	return m
}

func (m *floorIndex) ByNode(node string) (n int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, obj := range slices.All(m.byNode[node]) {
		n += look(obj)
	}
	return n
}

func (m *floorMirror) ByTeam(string) int { panic("the floor has no index") }
