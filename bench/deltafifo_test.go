package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientgo "k8s.io/client-go/tools/cache"

	"github.com/setpoint-go/setpoint/cache"
)

// object is the content of the queues of deltas. Its key is made in advance.
type object struct {
	key     string
	version int
}

// deltas is a queue of deltas with the cache that it feeds, combined as in an informer.
type deltas interface {
	Update(o *object)
	Replace(list []*object)
	Pop(apply bool) (key string, told int) // takes out a key and returns the number of its deltas
	Cached(key string) *object
}

var deltaImplementations = []struct {
	name string
	new  func() deltas
}{
	{"setpoint", newSetpointDeltas},
	{"clientgo", newClientgoDeltas},
}

// BenchmarkDeltaFIFOAddPop measures an update of a key and the pop of the longest waiting one, one after the other in one goroutine, while
// size-1 other keys wait. Nothing is written to a cache.
func BenchmarkDeltaFIFOAddPop(b *testing.B) {
	forEachDeltas(b, []int{1, 10_000, 100_000, 1_000_000}, func(b *testing.B, fresh func() deltas, objects []*object) {
		q := fresh()
		for _, o := range objects[1:] {
			q.Update(o)
		}
		told, i := 0, 0
		for b.Loop() {
			q.Update(objects[i])
			_, n := q.Pop(false)
			told += n
			if i++; i == len(objects) {
				i = 0
			}
		}
		if told != b.N {
			b.Fatalf("got %d deltas, want %d", told, b.N)
		}
		if waits := popAll(q, false); waits != len(objects)-1 {
			b.Fatalf("%d keys wait, want %d", waits, len(objects)-1)
		}
	})
}

// BenchmarkDeltaFIFOReplace measures the first list of size objects, until all are popped; ns/listed is the part of Replace
// itself. Nothing is written to a cache.
func BenchmarkDeltaFIFOReplace(b *testing.B) {
	forEachDeltas(b, []int{10_000, 100_000, 1_000_000}, func(b *testing.B, fresh func() deltas, objects []*object) {
		var listed time.Duration
		for b.Loop() {
			q := fresh()
			began := time.Now()
			q.Replace(objects)
			listed += time.Since(began)
			if told := popAll(q, false); told != len(objects) {
				b.Fatalf("got %d deltas, want %d", told, len(objects))
			}
		}
		perObject(b, len(objects))
		b.ReportMetric(float64(listed.Nanoseconds())/float64(b.N*len(objects)), "ns/listed")
	})
}

// BenchmarkDeltaFIFORelist measures a list of size objects of which the cache holds equal ones, until the cache equals the list. One of
// them has changed, so that there is something to check.
func BenchmarkDeltaFIFORelist(b *testing.B) {
	forEachDeltas(b, []int{10_000, 100_000, 1_000_000}, func(b *testing.B, fresh func() deltas, objects []*object) {
		q := fresh()
		q.Replace(objects)
		popAll(q, true)
		list := make([]*object, len(objects))
		for i, o := range objects {
			list[i] = &object{o.key, o.version} // as a source makes them
		}
		told := 0
		for b.Loop() {
			last := len(list) - 1
			list[last] = &object{list[last].key, list[last].version + 1}
			q.Replace(list)
			told += popAll(q, true)
			if q.Cached(list[last].key) != list[last] {
				b.Fatal("the cache lacks the object that has changed")
			}
		}
		b.ReportMetric(float64(told)/float64(b.N), "events/op")
		perObject(b, len(objects))
	})
}

// BenchmarkDeltaFIFOOneKey measures the memory that size updates of one object of 1 KiB hold, while no consumer pops.
func BenchmarkDeltaFIFOOneKey(b *testing.B) {
	const size = 20_000
	type large struct {
		object
		_ [1024]byte
	}
	for _, impl := range deltaImplementations {
		b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
			kept, told := 0, 0
			for b.Loop() {
				before := heap()
				q := impl.new()
				for i := range size {
					o := &large{object: object{"namespace/name", i}}
					q.Update(&o.object)
				}
				kept += heap() - before
				told += popAll(q, true)
				if o := q.Cached("namespace/name"); o == nil || o.version != size-1 {
					b.Fatalf("the cache ends with %v", o)
				}
			}
			b.ReportMetric(float64(kept)/float64(b.N)/(1<<20), "MiB")
			b.ReportMetric(float64(told)/float64(b.N), "deltas")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func TestEveryDeltaFIFODoesTheSameWork(t *testing.T) {
	for _, impl := range deltaImplementations {
		t.Run(impl.name, func(t *testing.T) {
			objects := makeObjects(100)
			q := impl.new()
			q.Replace(objects)
			require.Equal(t, 100, popAll(q, true))
			q.Update(&object{objects[0].key, 7})
			q.Replace(objects[:50])
			require.NotZero(t, popAll(q, true))
			for i, o := range objects {
				if i < 50 {
					require.Equal(t, o, q.Cached(o.key))
				} else {
					require.Nil(t, q.Cached(o.key))
				}
			}
		})
	}
}

func forEachDeltas(b *testing.B, sizes []int, run func(b *testing.B, fresh func() deltas, objects []*object)) {
	for _, size := range sizes {
		objects := makeObjects(size)
		for _, impl := range deltaImplementations {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				b.ReportAllocs()
				run(b, impl.new, objects)
			})
		}
	}
}

// perObject reports the time for each of size objects.
func perObject(b *testing.B, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/object")
}

// end is a key that is never written to the cache.
const end = "end"

// popAll pops all waiting keys, and returns the number of deltas. A queue of client-go has no length, and its Pop blocks forever, so a key
// is put at the end.
func popAll(q deltas, apply bool) (told int) {
	q.Update(&object{key: end})
	for {
		key, n := q.Pop(apply)
		if key == end {
			return told
		}
		told += n
	}
}

func makeObjects(n int) []*object {
	objects := make([]*object, n)
	for i, key := range makeKeys(n) {
		objects[i] = &object{key: key}
	}
	return objects
}

type setpointDeltas struct {
	cache   *cache.Indexer[string, *object]
	queue   *cache.DeltaFIFO[string, *object]
	version uint64
}

func newSetpointDeltas() deltas {
	key := func(o *object) string { return o.key }
	x := cache.NewIndexer(key)
	equal := func(known, listed *object) bool { return known.version == listed.version }
	return &setpointDeltas{cache: x, queue: must(cache.NewDeltaFIFO(key, cache.DeltaFIFOConfig[string, *object]{KnownObjects: x, Equal: equal}))}
}

func (q *setpointDeltas) Update(o *object) {
	q.version++
	succeed(q.queue.Update(o, q.version))
}

func (q *setpointDeltas) Replace(list []*object) {
	q.version++
	succeed(q.queue.Replace(list, q.version))
}

func (q *setpointDeltas) Pop(apply bool) (key string, told int) {
	_, err := q.queue.TryPop(func(k string, deltas cache.Deltas[*object], _ bool) error {
		key, told = k, 0
		for range deltas.All() {
			told++
		}
		if !apply || key == end {
			return nil
		}
		for d := range deltas.All() {
			if d.Type == cache.Deleted {
				q.cache.Delete(key)
			} else {
				q.cache.Upsert(d.Object)
			}
		}
		return nil
	})
	succeed(err)
	return key, told
}

func (q *setpointDeltas) Cached(key string) *object {
	o, _ := q.cache.Get(key)
	return o
}

type clientgoDeltas struct {
	cache clientgo.Store
	queue *clientgo.DeltaFIFO
}

func newClientgoDeltas() deltas {
	key := func(o any) (string, error) { return clientgoKey(o), nil }
	x := clientgo.NewStore(key)
	return &clientgoDeltas{cache: x, queue: clientgo.NewDeltaFIFOWithOptions(clientgo.DeltaFIFOOptions{
		KeyFunction: key, KnownObjects: x, EmitDeltaTypeReplaced: true,
	})}
}

func (q *clientgoDeltas) Update(o *object) { succeed(q.queue.Update(o)) }

func (q *clientgoDeltas) Replace(list []*object) {
	items := make([]any, len(list)) // which a reflector makes too
	for i, o := range list {
		items[i] = o
	}
	succeed(q.queue.Replace(items, ""))
}

func (q *clientgoDeltas) Pop(apply bool) (key string, told int) {
	_, err := q.queue.Pop(func(popped any, _ bool) error {
		deltas := popped.(clientgo.Deltas)
		key, told = clientgoKey(deltas[0].Object), len(deltas)
		if !apply || key == end {
			return nil
		}
		for _, d := range deltas {
			var err error
			if d.Type == clientgo.Deleted {
				err = q.cache.Delete(&object{key: key})
			} else {
				err = q.cache.Update(d.Object)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	succeed(err)
	return key, told
}

func (q *clientgoDeltas) Cached(key string) *object {
	o, _, _ := q.cache.GetByKey(key)
	found, _ := o.(*object)
	return found
}

func clientgoKey(o any) string {
	if gone, ok := o.(clientgo.DeletedFinalStateUnknown); ok {
		return gone.Key
	}
	return o.(*object).key
}

// succeed ends the benchmark if err is not nil: no operation of a benchmark can fail.
func succeed(err error) {
	if err != nil {
		panic(err)
	}
}
