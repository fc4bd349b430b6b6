package bench_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
)

// BenchmarkInformerRelist measures a list of size unchanged objects, from the call of List until the cache has it. The objects are at other
// addresses, as if they had been decoded. The calls of the handler are counted: none, or an update of each object. For client-go, the time
// ends with the last of these calls, because there is no other sign of the end.
func BenchmarkInformerRelist(b *testing.B) {
	for _, size := range []int{10_000, 100_000, 1_000_000} {
		for _, impl := range []int{0, 2} {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, informers[impl].name), func(b *testing.B) {
				m := informers[impl].new()
				listed, told := newGoal(size), make(chan struct{}, 1)
				var updates atomic.Int64
				all := newGoal(size)
				m.handle(func(o *thing) {
					switch {
					case o.last:
						told <- struct{}{}
					case listed.left.Load() > 0:
						listed.count()
					default:
						updates.Add(1)
						all.count()
					}
				})
				stop := m.run(makeThings(size, 1, false))
				defer stop()
				listed.await(b)
				var relisting time.Duration
				n, version := 0, 1
				for b.Loop() {
					n++
					version++
					m.events(makeThings(1, version, true)) // an event since the last list
					<-told
					objects := makeThings(size, 1, false)
					copy(objects, makeThings(1, version, false))
					all.left.Store(int64(size))
					all.done = make(chan struct{})
					runtime.GC()
					var began time.Time
					m.relist(objects, func() { began = time.Now() })
					if s, ok := m.(*setpointShared); ok {
						if err := s.in.WaitForVersion(context.Background(), informer.Version(2*n+1)); err != nil {
							b.Fatal(err)
						}
					} else {
						all.await(b)
					}
					relisting += time.Since(began)
				}
				b.ReportMetric(float64(relisting.Nanoseconds())/float64(n), "ns/relist")
				b.ReportMetric(float64(updates.Load())/float64(n), "updates/relist")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkInformerOneMoreHandler measures the cost per event of each handler after the first one: two updates of each of size objects, as
// in ListWatch, with nine handlers and with one.
func BenchmarkInformerOneMoreHandler(b *testing.B) {
	const more = 8
	for _, size := range []int{100_000} {
		for _, impl := range informers {
			b.Run(fmt.Sprintf("size=%d/impl=%s", size, impl.name), func(b *testing.B) {
				listed, first, last := makeThings(size, 1, false), makeThings(size, 2, false), makeThings(size, 3, true)
				var one, all time.Duration
				var mallocs [2]uint64
				n := 0
				for b.Loop() {
					n++
					before := mallocCount()
					_, w := listWatch(b, impl.new(), 1, listed, first, last)
					mallocs[0], one = mallocs[0]+mallocCount()-before, one+w
					before = mallocCount()
					_, w = listWatch(b, impl.new(), 1+more, listed, first, last)
					mallocs[1], all = mallocs[1]+mallocCount()-before, all+w
				}
				events := float64(more * n * 2 * size)
				b.ReportMetric(float64((all-one).Nanoseconds())/events, "ns/event")
				b.ReportMetric((float64(mallocs[1])-float64(mallocs[0]))/events, "allocs/event")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func mallocCount() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Mallocs
}

// The bounds of the soak. The pending calls of a stalled handler cost at most soakBacklog bytes for each object, in addition to the last
// object that it knows. After it has caught up, only soakRest is kept, and soakTable bytes for each object: keys have come and gone, so the
// table of the cache may have grown to twice its size.
const (
	soakBacklog = 200
	soakRest    = 1 << 20
	soakTable   = 32
)

// row is the object of the soak, of soakRow bytes.
type row struct {
	name string
	n    int // its number
	rev  int
	_    [80]byte
}

const soakRow = 112

// soakSource has a number of rows. It reports the requested number of changes of them in random order, and then one of the first row, which
// marks the end. One in 16 is a deletion, after which the row is added again.
type soakSource struct {
	names   []string
	rows    []*row // by number; nil if it is deleted
	ask     chan int
	version informer.Version
}

func (s *soakSource) List(context.Context) (informer.List[*row], error) {
	return informer.List[*row]{Items: slices.Clone(s.rows), Version: s.version}, nil
}

func (s *soakSource) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[*row], error] {
	return func(yield func(informer.Event[*row], error) bool) {
		rnd := uint64(1)
		for {
			select {
			case n := <-s.ask:
				for range n {
					rnd = rnd*6364136223846793005 + 1442695040888963407
					if !yield(s.change(1+int(rnd>>33)%(len(s.rows)-1), rnd>>60 == 0), nil) {
						return
					}
				}
				if !yield(s.change(0, false), nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (s *soakSource) change(i int, remove bool) informer.Event[*row] {
	s.version++
	old := s.rows[i]
	if old != nil && remove {
		s.rows[i] = nil
		return informer.Event[*row]{Type: informer.Deleted, Object: old, Version: s.version}
	}
	s.rows[i] = &row{name: s.names[i], n: i, rev: int(s.version)}
	ev := informer.Event[*row]{Type: informer.Modified, Object: s.rows[i], Version: s.version}
	if old == nil {
		ev.Type = informer.Added
	}
	return ev
}

// soakSize returns a number from the environment, or that of the short form.
func soakSize(b *testing.B, name string, short int) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(short)))
	if err != nil || n <= 0 {
		b.Fatalf("%s is not a number", name)
	}
	return n
}

// BenchmarkInformerSoak has SOAK_OBJECTS objects and SOAK_EVENTS changes of them, and two handlers, one of which stalls from the third
// tenth of the changes to the seventh. It fails if the memory exceeds its bounds, or if a handler does not end with the content of the
// cache. The long form takes minutes:
//
//	SOAK_OBJECTS=1000000 SOAK_EVENTS=10000000 go test -run='^$' -bench=InformerSoak -benchtime=1x -timeout=1h ./bench
func BenchmarkInformerSoak(b *testing.B) {
	objects, events := soakSize(b, "SOAK_OBJECTS", 20_000), soakSize(b, "SOAK_EVENTS", 200_000)
	b.Run(fmt.Sprintf("size=%d/events=%d/impl=setpoint", objects, events), func(b *testing.B) {
		for b.Loop() {
			soak(b, objects, events)
		}
	})
}

func soak(b *testing.B, objects, events int) {
	src := &soakSource{ask: make(chan int), rows: make([]*row, objects), names: make([]string, objects)}
	for i := range src.rows {
		src.names[i] = "row-" + strconv.Itoa(i)
		src.rows[i] = &row{name: src.names[i], n: i}
	}
	in := must(informer.New(src, func(r *row) string { return r.name }, informer.Config{}))
	var stall atomic.Pointer[chan struct{}]
	known := [2][]int{make([]int, objects), make([]int, objects)} // the revision of each row, from 1; 0 if it is gone
	caughtUp := [2]chan int{make(chan int, 3), make(chan int, 3)}
	for i := range known {
		add := func(r *row) {
			if gate := stall.Load(); i == 1 && gate != nil {
				<-*gate
			}
			if known[i][r.n] = r.rev + 1; r.n == 0 && r.rev > 0 {
				caughtUp[i] <- r.rev
			}
		}
		if _, err := in.AddHandler(informer.Handler[string, *row]{
			OnAdd:    func(r *row, _ bool) { add(r) },
			OnUpdate: func(_, r *row) { add(r) },
			OnDelete: func(d cache.Tombstone[string, *row]) { known[i][d.Object.n] = 0 },
		}); err != nil {
			b.Fatal(err)
		}
	}
	stop := running(func(ctx context.Context) { _ = in.Run(ctx) })
	defer stop()
	sent := 0
	send := func(n, handlers int) { // and waits until the given number of handlers has been called
		src.ask <- n
		sent += n + 1
		for _, rev := range caughtUp[:handlers] {
			for <-rev != sent {
			}
		}
	}

	began := time.Now()
	send(events*3/10, 2)
	before := liveHeap()
	gate := make(chan struct{})
	stall.Store(&gate)
	send(events*4/10, 1)
	stalled := liveHeap() - before
	stall.Store(nil)
	close(gate)
	send(events-events*3/10-events*4/10, 2)
	took := time.Since(began)
	rest := liveHeap() - before

	b.ReportMetric(float64(took.Nanoseconds())/float64(events), "ns/event")
	b.ReportMetric(float64(stalled)/float64(objects), "B/object-stalled")
	b.ReportMetric(float64(rest)/(1<<20), "MiB-after")
	b.ReportMetric(0, "ns/op")
	if limit := int64(objects) * (soakBacklog + soakRow); stalled > limit {
		b.Errorf("a stalled handler costs %d bytes, more than %d", stalled, limit)
	}
	if limit := soakRest + int64(objects)*soakTable; rest > limit {
		b.Errorf("%d bytes are retained after all have caught up, more than %d", rest, limit)
	}
	stop()
	for i := range known {
		n := 0
		for _, rev := range known[i] {
			n += min(rev, 1)
		}
		if n != in.Indexer().Len() {
			b.Errorf("handler %d knows %d objects of %d", i, n, in.Indexer().Len())
		}
		for name, r := range in.Indexer().All() {
			if rev := known[i][r.n] - 1; rev != r.rev {
				b.Fatalf("handler %d knows revision %d of %s, not %d", i, rev, name, r.rev)
			}
		}
	}
}
