package bench_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/workqueue"
)

// fullScale reports whether the tests of scale run in their full size, as docs/scaling.md quotes them.
func fullScale() bool { return os.Getenv("SCALE_MODEL") == "full" }

// shardedSizes are replicas and slots.
func shardedSizes() [][2]int {
	if fullScale() {
		return [][2]int{{3, 64}, {10, 64}, {30, 128}, {100, 400}}
	}
	return [][2]int{{3, 12}, {10, 20}}
}

// TestScaleOfReplicas runs the real shard.Slots of up to 100 replicas over one store of leases, in simulated time and with default
// durations. The store does not report changes by itself, so it costs as many calls as a SQL database. Its log has a table.
func TestScaleOfReplicas(t *testing.T) {
	t.Log("| replicas | slots | start | store calls/s | of these writes | records read/s | a replica dies: its slots are owned again | " +
		"a replica restarts: moves per slot it had |")
	for _, size := range shardedSizes() {
		synctest.Test(t, func(t *testing.T) { scaleOfReplicas(t, size[0], size[1]) })
	}
}

func scaleOfReplicas(t *testing.T, replicas, slots int) {
	f := &fleet{t: t, leases: memlease.New(), slots: slots, owners: make(map[int]int)}
	all := make([]*member, replicas)
	begin := time.Now()
	for i := range all {
		all[i] = f.start(i)
	}
	f.settle(all)
	started := time.Since(begin)

	const steady = 2 * time.Minute
	before := f.calls()
	moves, _ := f.moved()
	time.Sleep(steady)
	calls := f.calls()
	still, _ := f.moved()
	require.Equal(t, moves, still, "no slot moves while nothing changes")
	perSecond := func(a, b uint64) float64 { return float64(b-a) / steady.Seconds() }

	dead := all[0]
	died := time.Now()
	dead.cut.Store(true)
	time.Sleep(time.Minute)
	f.settle(all[1:])
	taken, last := f.moved()
	lost, longest := taken-moves, last.Sub(died)
	dead.stop()
	all[0] = f.start(0)
	f.settle(all)

	moves, _ = f.moved()
	restarts := min(replicas, 10)
	for i := range restarts {
		all[i].stop()
		time.Sleep(10 * time.Second)
		all[i] = f.start(i)
		f.settle(all)
	}
	restarted, _ := f.moved()
	perRestart := float64(restarted-moves) * float64(replicas) / float64(restarts*slots)
	for _, m := range all {
		m.stop()
	}
	t.Logf("| %d | %d | %.0f s | %.0f | %.0f | %.0f | %d, after %.0f s | %.1f |", replicas, slots, started.Seconds(),
		perSecond(before.all(), calls.all()), perSecond(before.writes, calls.writes), perSecond(before.records, calls.records),
		lost, longest.Seconds(), perRestart)
	assert.LessOrEqual(t, lost, (slots+replicas-1)/replicas+replicas, "slots of the dead replica, and one more for each that stays")
	assert.Less(t, longest, 30*time.Second)
}

// fleet is a number of replicas that share slots. It lives in a bubble.
type fleet struct {
	t      *testing.T
	leases *memlease.Store
	slots  int

	reads, writes, records atomic.Uint64

	mu sync.Mutex
	// mu guards the following.
	owners   map[int]int // by slot, the replicas that have acquired it and were not revoked: at most one
	acquired int
	last     time.Time // the last acquisition
}

// load is a number of calls.
type load struct{ reads, writes, records uint64 }

func (l load) all() uint64 { return l.reads + l.writes }

func (f *fleet) calls() load {
	return load{reads: f.reads.Load(), writes: f.writes.Load(), records: f.records.Load()}
}

// moved returns how often a slot was acquired, and when for the last time.
func (f *fleet) moved() (int, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acquired, f.last
}

// settle waits until every slot has an owner and the numbers of slots per replica differ by at most one.
func (f *fleet) settle(all []*member) {
	f.t.Helper()
	for range 600 {
		time.Sleep(time.Second)
		total, least, most := 0, f.slots, 0
		for _, m := range all {
			owned := len(m.shards.Owned())
			total, least, most = total+owned, min(least, owned), max(most, owned)
		}
		if total == f.slots && most-least <= 1 {
			return
		}
	}
	require.Fail(f.t, "the slots are not balanced after ten minutes")
}

// member is a replica.
type member struct {
	shards *shard.Slots
	cut    atomic.Bool // from the store
	stop   func()      // and wait
}

func (f *fleet) start(i int) *member {
	m := &member{}
	shards, err := shard.New(shard.Config{
		Lease: leaderelect.Config{
			Store: &counted{f: f, m: m}, Key: "fleet", Identity: "replica-" + strconv.Itoa(i), Logger: slog.New(slog.DiscardHandler),
		},
		Slots: f.slots, Members: 128,
		OnAcquired: func(_ context.Context, slot int) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.acquired, f.last = f.acquired+1, time.Now()
			f.owners[slot]++
			assert.Equal(f.t, 1, f.owners[slot], "owners of slot %d", slot)
			return nil
		},
		OnRevoked: func(slot int, _ error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.owners[slot]--
		},
	})
	require.NoError(f.t, err)
	m.shards = shards
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- shards.Run(ctx) }() // until stop
	m.stop = func() {
		cancel()
		require.NoError(f.t, <-ended)
	}
	return m
}

// counted is the connection of a member to the store. It hides the store's watch. Each call takes 5 ms.
type counted struct {
	f *fleet
	m *member
}

var errCut = errors.New("cut off")

func (c *counted) call(ctx context.Context, n *atomic.Uint64) error {
	n.Add(1)
	if c.m.cut.Load() {
		<-ctx.Done()
		return errCut
	}
	time.Sleep(5 * time.Millisecond)
	return ctx.Err()
}

func (c *counted) Get(ctx context.Context, key string) (leaderelect.Entry, error) {
	if err := c.call(ctx, &c.f.reads); err != nil {
		return leaderelect.Entry{}, err
	}
	c.f.records.Add(1)
	return c.f.leases.Get(ctx, key)
}

func (c *counted) Create(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := c.call(ctx, &c.f.writes); err != nil {
		return leaderelect.Entry{}, err
	}
	return c.f.leases.Create(ctx, e)
}

func (c *counted) Update(ctx context.Context, e leaderelect.Entry) (leaderelect.Entry, error) {
	if err := c.call(ctx, &c.f.writes); err != nil {
		return leaderelect.Entry{}, err
	}
	return c.f.leases.Update(ctx, e)
}

func (c *counted) List(ctx context.Context, prefix string) ([]leaderelect.Entry, error) {
	if err := c.call(ctx, &c.f.reads); err != nil {
		return nil, err
	}
	list, err := c.f.leases.List(ctx, prefix)
	c.f.records.Add(uint64(len(list)))
	return list, err
}

// TestScaleOfKeys divides keys among slots, and slots among replicas as a plan does: the numbers of slots differ by at most one.
// Its log has a table.
func TestScaleOfKeys(t *testing.T) {
	keys := 100_000
	if fullScale() {
		keys = 10_000_000
	}
	t.Log("| keys | replicas | slots | keys per replica, mean | most | more than the mean |")
	for _, size := range [][2]int{{3, 64}, {10, 64}, {10, 640}, {100, 400}, {100, 1000}, {100, 4000}} {
		replicas, slots := size[0], size[1]
		shards, err := shard.New(shard.Config{
			Lease:      leaderelect.Config{Store: memlease.New(), Key: "keys", Identity: "one", Logger: slog.New(slog.DiscardHandler)},
			Slots:      slots,
			OnAcquired: func(context.Context, int) error { return nil },
		})
		require.NoError(t, err)
		perSlot := make([]int, slots)
		for i := range keys {
			perSlot[shards.Slot("tenant-"+strconv.Itoa(i))]++
		}
		perReplica := make([]int, replicas)
		for slot, n := range perSlot {
			perReplica[slot%replicas] += n
		}
		mean, most := float64(keys)/float64(replicas), slices.Max(perReplica)
		t.Logf("| %d | %d | %d | %.0f | %d | %.0f%% |", keys, replicas, slots, mean, most, 100*(float64(most)/mean-1))
		if slots%replicas == 0 {
			assert.Less(t, float64(most), 1.25*mean)
		}
	}
}

// TestScaleOfOneReplica measures the memory of a process. Its log has a table.
func TestScaleOfOneReplica(t *testing.T) {
	n := 100_000
	if fullScale() {
		n = 10_000_000
	}
	t.Log("| n | what | bytes each, beside the key and the object | all of them | time each |")
	keys := makeKeys(n)
	holds := func(what string, make func() any) {
		before, begin := heap(), time.Now()
		kept := make()
		took := time.Since(begin)
		bytes := heap() - before
		t.Logf("| %d | %s | %d | %.1f GB | %d ns |", n, what, bytes/n, float64(bytes)/1e9, took.Nanoseconds()/int64(n))
		runtime.KeepAlive(kept)
	}
	holds("keys ready in a queue", func() any {
		q := must(workqueue.New(workqueue.Config[string]{}))
		for _, key := range keys {
			q.Add(key)
		}
		require.Equal(t, n, q.Len())
		return q
	})
	holds("keys that are due in an hour", func() any {
		q := must(workqueue.New(workqueue.Config[string]{}))
		for _, key := range keys {
			q.AddAfter(key, time.Hour)
		}
		require.Equal(t, n, q.Stats().Delayed)
		return q
	})
	objects := make([]*sized, n)
	for i, key := range keys {
		objects[i] = &sized{key: key, plan: i % 1000}
	}
	holds("objects in a cache", func() any {
		x := cache.NewIndexer(func(o *sized) string { return o.key })
		x.Replace(objects)
		require.Equal(t, n, x.Len())
		return x
	})
	holds("objects in a cache with an index of 1,000 values", func() any {
		x := cache.NewIndexer(func(o *sized) string { return o.key })
		cache.AddIndex(x, func(o *sized) []int { return []int{o.plan} })
		x.Replace(objects)
		require.Equal(t, n, x.Len())
		return x
	})
	runtime.KeepAlive(keys)
}

// sized is an object of a cache.
type sized struct {
	key  string
	plan int
}

// TestScaleOfDividedCaches measures the cache of one of several replicas that share 64 slots, beside that of a replica that holds all objects.
// The source makes each object anew, as one that decodes does, so an object that is not held is garbage. Its log has a table.
func TestScaleOfDividedCaches(t *testing.T) {
	const slots = 64
	n := 10_000
	if fullScale() {
		n = 100_000
	}
	of := must(shard.New(shard.Config{
		Lease: leaderelect.Config{Store: memlease.New(), Key: "x", Identity: "x"}, Slots: slots,
		OnAcquired: func(context.Context, int) error { return nil },
	}))
	t.Log("| replicas | objects in each | heap of its cache | of that of all | its slots at once | one more slot |")
	var whole int
	for _, replicas := range []int{1, 4, 16} {
		before := heap()
		var src informer.ListWatcher[*record] = recordsSource(n)
		if replicas > 1 {
			src = informer.Divide(src, (*record).Key)
		}
		in := must(informer.New(src, (*record).Key, informer.Config{}))
		in.Share(of.Slot, of.HashRange)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, in.Run(ctx)) }) // ends with ctx; waited for below
		require.NoError(t, informer.WaitForSync(ctx, in))
		hold := func(from, to int) time.Duration {
			began := time.Now()
			var all sync.WaitGroup
			for slot := from; slot < to; slot++ {
				all.Go(func() { assert.NoError(t, in.Hold(ctx, slot)) }) // ends when the slot is held; waited for
			}
			all.Wait()
			return time.Since(began)
		}
		first := hold(0, slots/replicas)
		bytes := heap() - before
		if replicas == 1 {
			whole = bytes
		}
		objects := in.Indexer().Len()
		next := hold(slots/replicas, min(slots, slots/replicas+1))
		t.Logf("| %d | %d | %.1f MB | %.1f%% | %v | %v |", replicas, objects, float64(bytes)/1e6, 100*float64(bytes)/float64(whole),
			first.Round(time.Millisecond), next.Round(time.Millisecond))
		assert.Less(t, float64(bytes), (1/float64(replicas)+0.1)*float64(whole))
		cancel()
		running.Wait()
	}
}

// record is an object of half a kilobyte.
type record struct {
	key  string
	data [500]byte
}

func (r *record) Key() string { return r.key }

// recordsSource is a source of this number of records, which never change.
type recordsSource int

func (s recordsSource) List(ctx context.Context) (informer.List[*record], error) {
	return informer.Collect(s.ListPages(ctx))
}

func (s recordsSource) ListPages(context.Context) iter.Seq2[informer.List[*record], error] {
	return func(yield func(informer.List[*record], error) bool) {
		for from := 0; from < int(s); from += 1000 {
			page := informer.List[*record]{Version: 1}
			for i := from; i < min(int(s), from+1000); i++ {
				page.Items = append(page.Items, &record{key: "record-" + strconv.Itoa(i), data: [500]byte{byte(i)}})
			}
			if !yield(page, nil) {
				return
			}
		}
	}
}

func (s recordsSource) Watch(ctx context.Context, _ informer.Version) iter.Seq2[informer.Event[*record], error] {
	return func(yield func(informer.Event[*record], error) bool) {
		<-ctx.Done()
		yield(informer.Event[*record]{}, context.Cause(ctx))
	}
}

// TestScaleOfWatchers opens many watches of one store in memory, each with its own informer, and writes. Its log has a table.
func TestScaleOfWatchers(t *testing.T) {
	watchers, objects, writes := 20, 100, 50
	if fullScale() {
		watchers, objects, writes = 1000, 1000, 1000
	}
	db := store.NewMemory(store.MemoryConfig{})
	things := must(store.Open[sizedValue](db, "things", store.Config[sizedValue]{}))
	ctx, cancel := context.WithCancel(t.Context())
	var last informer.Version
	for i := range objects {
		o, err := things.Create(ctx, store.Object[sizedValue]{Key: strconv.Itoa(i)})
		require.NoError(t, err)
		last = o.Version
	}
	var running sync.WaitGroup
	before, goroutines := heap(), runtime.NumGoroutine()
	begin := time.Now()
	caches := make([]*store.Informer[sizedValue], watchers)
	for i := range caches {
		caches[i] = must(informer.New(things, store.Key, informer.Config{Logger: slog.New(slog.DiscardHandler)}))
		running.Go(func() { _ = caches[i].Run(ctx) }) // until cancel
	}
	seen := func() {
		for _, c := range caches {
			require.NoError(t, c.WaitForVersion(ctx, last))
		}
	}
	seen()
	listed := time.Since(begin)
	bytes := heap() - before
	started := runtime.NumGoroutine() - goroutines
	begin = time.Now()
	for i := range writes {
		o, err := store.Patch(ctx, things, strconv.Itoa(i%objects), func(o *store.Object[sizedValue]) error { o.Value.N++; return nil })
		require.NoError(t, err)
		last = o.Version
	}
	wrote := time.Since(begin)
	seen()
	arrived := time.Since(begin)
	cancel()
	running.Wait()
	t.Log("| watchers | objects | goroutines each | memory each | first lists | a write meanwhile | an event, per watcher |")
	t.Logf("| %d | %d | %d | %d kB | %.2f s | %d µs | %d ns |", watchers, objects, started/watchers, bytes/watchers/1000,
		listed.Seconds(), wrote.Microseconds()/int64(writes), arrived.Nanoseconds()/int64(writes*watchers))
}

type sizedValue struct{ N int }
