//go:build linux

package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
)

var large = flag.Int("large", 0, "how many objects are listed by the test of a large store; a tenth of them is changed")

// heapOf returns how much the heap has at most while f runs, beyond what it had before.
func heapOf(f func()) (most uint64) {
	read := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := read()
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() { // samples until f has returned
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, read())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	f()
	close(done)
	sampling.Wait()
	return most - min(before, most)
}

// each calls f for all i below n, in 32 goroutines.
func each(t testing.TB, n int, f func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var g sync.WaitGroup
	for range 32 {
		g.Go(func() { // ends when all are done
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := f(int(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	g.Wait()
	require.False(t, t.Failed())
}

// largest is a handler of gRPC that notes the size of the largest message that a client receives.
type largest struct{ bytes atomic.Int64 }

func (*largest) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*largest) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*largest) HandleConn(context.Context, stats.ConnStats)                       {}
func (l *largest) HandleRPC(_ context.Context, s stats.RPCStats) {
	in, ok := s.(*stats.InPayload)
	for ok && int64(in.Length) > l.bytes.Load() {
		l.bytes.Store(int64(in.Length))
	}
}

// The server reads up to a thousand changes of the past at once. It sends them in parts, or a watch would hold them all.
func TestWatchReceivesPastInSmallParts(t *testing.T) {
	t.Parallel()
	const changed, size = 8, 1 << 20
	s := startServer(t)
	db := open(t, s.addr, quick)
	for i := range changed {
		_, err := dbtest.Put(t.Context(), db, fmt.Sprint(i), strings.Repeat("x", size))
		require.NoError(t, err)
	}
	var most largest
	client := connect(t, s.addr, func(c *clientv3.Config) { c.DialOptions = []grpc.DialOption{grpc.WithStatsHandler(&most)} })
	reader, err := etcd.Open(t.Context(), client, quick)
	require.NoError(t, err)
	require.Len(t, changes(t, reader, "app", 0, changed), changed)
	assert.Greater(t, most.bytes.Load(), int64(size))
	assert.Less(t, most.bytes.Load(), int64(2*size))
}

// What a list and a watch hold in memory does not depend on how many objects and changes there are.
func TestLargeStoreIsReadInLittleMemory(t *testing.T) {
	if *large == 0 {
		t.Skip("run it with -large=1000000")
	}
	p := startProcesses(t, 1)
	c, db := connect(t, p.near()), open(t, p.near(), quick)
	create(t, db, "model")
	model, err := c.Get(t.Context(), "setpoint/objects/App/live/model")
	require.NoError(t, err)
	value, key := string(model.Kvs[0].Value), func(i int) string { return fmt.Sprintf("setpoint/objects/App/live/%09d", i) }
	const batch = 100
	begin := time.Now()
	each(t, *large/batch, func(n int) error { // many in a transaction, to be quick
		ops := make([]clientv3.Op, batch)
		for i := range ops {
			ops[i] = clientv3.OpPut(key(n*batch+i), value)
		}
		_, err := c.Txn(t.Context()).Then(ops...).Commit()
		return err
	})
	status, err := p.status(p.near())
	require.NoError(t, err)
	t.Logf("%d objects of %d bytes written in %v; the database has %d MB", *large, len(value), time.Since(begin).Round(time.Second), status.DbSize>>20)

	var version informer.Version
	objects, pages := 0, 0
	begin = time.Now()
	heap := heapOf(func() {
		for page, err := range db.List(t.Context(), "App", backend.Query{}) {
			require.NoError(t, err)
			version = page.Version
			objects += len(page.Records)
			pages++
		}
	})
	require.Equal(t, *large+1, objects)
	t.Logf("listed in %d pages, %v, with %d MB of heap", pages, time.Since(begin).Round(time.Millisecond), heap>>20)

	begin = time.Now()
	var inf *store.Informer[dbtest.App]
	heap = heapOf(func() { inf = follow(t, db, informer.Handler[string, store.Object[dbtest.App]]{}) })
	require.Equal(t, *large+1, inf.Indexer().Len())
	t.Logf("a cache was filled in %v, with %d MB of heap at most", time.Since(begin).Round(time.Millisecond), heap>>20)

	changed := *large / 10
	begin = time.Now()
	each(t, changed, func(i int) error {
		_, err := c.Put(t.Context(), key(i), value)
		return err
	})
	t.Logf("%d changes written in %v", changed, time.Since(begin).Round(time.Second))
	_, last := func() (backend.Record, informer.Version) {
		r, err := dbtest.Put(t.Context(), db, "last", "1")
		require.NoError(t, err)
		return r, r.Version
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	require.NoError(t, inf.WaitForVersion(ctx, last))
	t.Logf("the cache had them %v after the first", time.Since(begin).Round(time.Second))

	reported := 0
	begin = time.Now()
	heap = heapOf(func() {
		for ch, err := range db.Watch(ctx, "App", backend.Query{}, version) {
			require.NoError(t, err)
			if ch.Record.Key != "" {
				if reported++; reported == 1 {
					time.Sleep(2 * time.Second) // a slow consumer: what is to come stays on the server
				}
			}
			if ch.Version >= last {
				break
			}
		}
	})
	require.Equal(t, changed, reported)
	t.Logf("a watch yielded them in %v, 2s of which its consumer slept, with %d MB of heap", time.Since(begin).Round(time.Millisecond), heap>>20)
}
