package bench_test

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// thing is the object of the informers: only the fields that client-go needs.
type thing struct {
	metav1.ObjectMeta
	last bool // no update follows
	data []byte
}

func (o *thing) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (o *thing) DeepCopyObject() kuberuntime.Object { c := *o; return &c }

// shared is an informer of objects that a benchmark puts, and its handlers, which count.
type shared interface {
	// handle adds a handler. OnAdd and OnUpdate call f.
	handle(f func(*thing))
	// run runs an informer of objects, and returns a function that stops it. Send events after it has returned.
	run(objects []*thing) (stop func())
	// events sends updates of objects.
	events(objects []*thing)
	// relist ends the watch, so that objects are listed, and calls asked when the list is requested.
	relist(objects []*thing, asked func())
	// len returns the number of objects in the cache.
	len() int
}

var informers = []struct {
	name string
	new  func() shared
}{
	{"setpoint", func() shared { return newSetpointShared(false) }},
	{"setpoint-every", func() shared { return newSetpointShared(true) }},
	{"clientgo", newClientgoShared},
	{"floor", func() shared { return &floorShared{} }},
}

// listing is the list of a source.
type listing struct {
	objects []*thing
	asked   func() // called by a list; may be nil
}

func (l *listing) list() []*thing {
	if l.asked != nil {
		l.asked()
	}
	return l.objects
}

// setpointShared is a source and an informer of it.
type setpointShared struct {
	in      *informer.Informer[string, *thing]
	listing listing
	version informer.Version
	feed    chan []*thing
	expire  chan listing
	every   bool // change is reported, without merging
}

func newSetpointShared(every bool) shared {
	m := &setpointShared{every: every, feed: make(chan []*thing), expire: make(chan listing)}
	m.in = must(informer.New(m, func(o *thing) string { return o.Name }, informer.Config{
		Backoff: wait.Backoff{Duration: time.Nanosecond}, // lists may follow each other at once
	}))
	return m
}

// Equal makes it an informer.Equaler.
func (m *setpointShared) Equal(a, b *thing) bool { return a.ResourceVersion == b.ResourceVersion }

func (m *setpointShared) List(context.Context) (informer.List[*thing], error) {
	m.version++
	return informer.List[*thing]{Items: m.listing.list(), Version: m.version}, nil
}

func (m *setpointShared) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[*thing], error] {
	return func(yield func(informer.Event[*thing], error) bool) {
		for {
			select {
			case objects := <-m.feed:
				for _, o := range objects {
					after++
					m.version = after
					if !yield(informer.Event[*thing]{Type: informer.Modified, Object: o, Version: after}, nil) {
						return
					}
				}
			case m.listing = <-m.expire:
				yield(informer.Event[*thing]{}, informer.ErrExpired)
				return
			case <-ctx.Done():
				return
			}
		}
	}
}

func (m *setpointShared) handle(f func(*thing)) {
	if _, err := m.in.AddHandler(informer.Handler[string, *thing]{
		OnAdd:      func(o *thing, _ bool) { f(o) },
		OnUpdate:   func(_, o *thing) { f(o) },
		EveryEvent: m.every,
	}); err != nil {
		panic(err)
	}
}

func (m *setpointShared) run(objects []*thing) (stop func()) {
	m.listing.objects = objects
	return running(func(ctx context.Context) { _ = m.in.Run(ctx) })
}

func (m *setpointShared) events(objects []*thing) { m.feed <- objects }
func (m *setpointShared) len() int                { return m.in.Indexer().Len() }

func (m *setpointShared) relist(objects []*thing, asked func()) {
	m.expire <- listing{objects, asked}
}

// clientgoShared is a ListerWatcher and a shared informer of it.
type clientgoShared struct {
	in      clientcache.SharedIndexInformer
	listing atomic.Pointer[listing]
	version atomic.Int64
	out     chan watch.Event
}

func newClientgoShared() shared {
	m := &clientgoShared{out: make(chan watch.Event, 100)}
	lw := &clientcache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (kuberuntime.Object, error) {
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(m.version.Add(1), 10)}}
			for _, o := range m.listing.Load().list() {
				list.Items = append(list.Items, kuberuntime.RawExtension{Object: o})
			}
			return list, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(m.out), nil
		},
	}
	m.in = clientcache.NewSharedIndexInformer(noWatchList{lw}, nil, 0, clientcache.Indexers{})
	return m
}

// noWatchList marks a source that cannot stream its list.
type noWatchList struct{ *clientcache.ListWatch }

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func (m *clientgoShared) handle(f func(*thing)) {
	if _, err := m.in.AddEventHandler(clientcache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f(o.(*thing)) },
		UpdateFunc: func(_, o any) { f(o.(*thing)) },
	}); err != nil {
		panic(err)
	}
}

func (m *clientgoShared) run(objects []*thing) (stop func()) {
	m.listing.Store(&listing{objects: objects})
	return running(m.in.RunWithContext)
}

func (m *clientgoShared) relist(objects []*thing, asked func()) {
	m.listing.Store(&listing{objects, asked})
	m.out <- watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("expired").ErrStatus}
}

func (m *clientgoShared) events(objects []*thing) {
	for _, o := range objects {
		m.out <- watch.Event{Type: watch.Modified, Object: o}
	}
}

func (m *clientgoShared) len() int { return len(m.in.GetStore().ListKeys()) }

// floorShared is one map that one goroutine writes, and a channel for each handler.
type floorShared struct {
	handlers []func(*thing)
	cache    map[string]*thing
	in       chan *thing
}

func (m *floorShared) handle(f func(*thing)) { m.handlers = append(m.handlers, f) }

func (m *floorShared) run(objects []*thing) (stop func()) {
	m.in = make(chan *thing, 1024)
	m.cache = make(map[string]*thing, len(objects))
	return running(func(ctx context.Context) {
		var out []chan *thing
		for _, f := range m.handlers {
			ch := make(chan *thing, 1024)
			out = append(out, ch)
			go func() { // calls one handler; ends when ch is closed
				for o := range ch {
					f(o)
				}
			}()
			defer close(ch)
		}
		tell := func(o *thing) {
			m.cache[o.Name] = o
			for _, ch := range out {
				ch <- o
			}
		}
		for _, o := range objects {
			tell(o)
		}
		for {
			select {
			case o := <-m.in:
				tell(o)
			case <-ctx.Done():
				return
			}
		}
	})
}

func (m *floorShared) events(objects []*thing) {
	for _, o := range objects {
		m.in <- o
	}
}

func (m *floorShared) len() int { return len(m.cache) }

func (m *floorShared) relist([]*thing, func()) { panic("the floor has no relists") }

// running runs f until stop is called.
func running(f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // runs the informer; ends with ctx, and stop waits for it
		defer close(done)
		f(ctx)
	}()
	return func() { cancel(); <-done }
}

// makeThings returns n objects, of one version.
func makeThings(n, version int, last bool) []*thing {
	objects := make([]*thing, n)
	for i := range objects {
		objects[i] = &thing{last: last, ObjectMeta: metav1.ObjectMeta{
			Name: "object-" + strconv.Itoa(i), ResourceVersion: strconv.Itoa(version),
		}}
	}
	return objects
}

// goal is the number of calls that handlers count down.
type goal struct {
	left atomic.Int64
	done chan struct{}
}

func newGoal(n int) *goal {
	g := &goal{done: make(chan struct{})}
	g.left.Store(int64(n))
	return g
}

func (g *goal) count() {
	if g.left.Add(-1) == 0 {
		close(g.done)
	}
}

func (g *goal) await(b *testing.B) {
	b.Helper()
	select {
	case <-g.done:
	case <-time.After(5 * time.Minute):
		b.Fatalf("%d calls are missing", g.left.Load())
	}
}

// BenchmarkInformerListWatch measures a list of size objects until each handler has received all of them, and then two updates of each
// object until each handler has received the last one of each. setpoint may merge the two; setpoint-every and client-go do not.
func BenchmarkInformerListWatch(b *testing.B) {
	for _, handlers := range []int{1, 4} {
		for _, size := range []int{10_000, 100_000, 1_000_000} {
			for _, impl := range informers {
				b.Run(fmt.Sprintf("handlers=%d/size=%d/impl=%s", handlers, size, impl.name), func(b *testing.B) {
					listed, first, last := makeThings(size, 1, false), makeThings(size, 2, false), makeThings(size, 3, true)
					var listing, watching time.Duration
					n := 0
					for b.Loop() {
						n++
						l, w := listWatch(b, impl.new(), handlers, listed, first, last)
						listing, watching = listing+l, watching+w
					}
					b.ReportMetric(float64(listing.Nanoseconds())/float64(n*size), "ns/listed")
					b.ReportMetric(float64(watching.Nanoseconds())/float64(n*2*size), "ns/event")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

func listWatch(b *testing.B, m shared, handlers int, listed, first, last []*thing) (listing, watching time.Duration) {
	adds, updates := newGoal(handlers*len(listed)), newGoal(handlers*len(last))
	for range handlers {
		m.handle(func(o *thing) {
			switch {
			case o.last:
				updates.count()
			case o.ResourceVersion == "1":
				adds.count()
			}
		})
	}
	began := time.Now()
	stop := m.run(listed)
	adds.await(b)
	listing = time.Since(began)
	began = time.Now()
	m.events(first)
	m.events(last)
	updates.await(b)
	watching = time.Since(began)
	stop()
	if m.len() != len(listed) {
		b.Fatalf("the cache holds %d objects, not %d", m.len(), len(listed))
	}
	return listing, watching
}

// BenchmarkInformerBlockedHandler measures the memory that 20,000 updates of one object of 1 KiB cost while a handler is
// blocked and another one receives all of them.
func BenchmarkInformerBlockedHandler(b *testing.B) {
	const updates = 20_000
	for _, impl := range informers[:1:1] {
		b.Run(fmt.Sprintf("size=%d/impl=%s", updates, impl.name), func(b *testing.B) { blockedHandler(b, impl.new, updates) })
	}
	for _, impl := range informers[2:3] {
		b.Run(fmt.Sprintf("size=%d/impl=%s", updates, impl.name), func(b *testing.B) { blockedHandler(b, impl.new, updates) })
	}
}

func blockedHandler(b *testing.B, newShared func() shared, updates int) {
	for b.Loop() {
		m := newShared()
		gate, told := make(chan struct{}), newGoal(1)
		m.handle(func(*thing) { <-gate })
		m.handle(func(o *thing) {
			if o.last {
				told.count()
			}
		})
		stop := m.run(makeThings(1, 1, false))
		before := liveHeap()
		for v := range updates {
			o := makeThings(1, v+2, v == updates-1)
			o[0].data = make([]byte, 1024)
			m.events(o)
		}
		told.await(b)
		b.ReportMetric(float64(liveHeap()-before)/(1<<20), "MiB")
		close(gate)
		stop()
	}
}

// liveHeap returns the bytes in use after a collection.
func liveHeap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// lates are the informers to which a handler is added late. On the floor it is not a handler but a goroutine that reads the cache as much,
// and does not concern the informer.
var lates = []struct {
	name string
	new  func() shared
	late func(m shared, size int, f func(*thing))
}{
	{"setpoint", func() shared { return newSetpointShared(false) }, func(m shared, _ int, f func(*thing)) { m.handle(f) }},
	{"clientgo", newClientgoShared, func(m shared, _ int, f func(*thing)) { m.handle(f) }},
	{"floor", func() shared { return newSetpointShared(false) }, func(m shared, size int, f func(*thing)) {
		for until := time.Now().Add(lateTime); time.Now().Before(until); {
			for range m.(*setpointShared).in.Indexer().All() {
			}
		}
		for range size {
			f(nil)
		}
	}},
}

// lateTime is about how long setpoint takes to deliver 100,000 objects to a late handler.
const lateTime = 7 * time.Millisecond

// BenchmarkInformerLateHandler measures the longest time from an update to the call of an existing handler while another handler joins,
// which must receive size objects: the longest of all runs, and the median of the longest of each.
func BenchmarkInformerLateHandler(b *testing.B) {
	for _, size := range []int{100_000} {
		for _, impl := range lates {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				var stalls []time.Duration
				for b.Loop() {
					m := impl.new()
					stalls = append(stalls, lateHandler(b, m, size, func(f func(*thing)) { impl.late(m, size, f) }))
				}
				slices.Sort(stalls)
				b.ReportMetric(float64(stalls[len(stalls)-1].Nanoseconds()), "ns-stall")
				b.ReportMetric(float64(stalls[len(stalls)/2].Nanoseconds()), "ns-stall-median")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func lateHandler(b *testing.B, m shared, size int, add func(f func(*thing))) (longest time.Duration) {
	listed, told := newGoal(size), make(chan struct{}, 1)
	m.handle(func(o *thing) {
		if o.ResourceVersion == "1" {
			listed.count()
		} else {
			told <- struct{}{}
		}
	})
	stop := m.run(makeThings(size, 1, false))
	defer stop()
	listed.await(b)
	late := newGoal(size)
	debug.FreeOSMemory()                       // otherwise the runtime does so during the run, and occupies a core for milliseconds
	go add(func(*thing) { late.left.Add(-1) }) // ends when the handler was added
	one := makeThings(1, 2, false)
	for late.left.Load() > 0 {
		began := time.Now()
		m.events(one)
		<-told
		longest = max(longest, time.Since(began))
	}
	return longest
}
