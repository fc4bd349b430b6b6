//go:build linux

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/etcd"
)

// durable is a server that waits for its disk, as those of users do.
func durable(b *testing.B) server {
	return startServer(b, func(c *embed.Config) { c.UnsafeNoFsync, c.TickMs, c.ElectionMs = false, 100, 1000 })
}

// BenchmarkWrite compares updates by one writer and by sixteen, each of a key of its own. The floor reads a key and writes it if
// its revision is the same, through the client alone.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d/bare", writers), func(b *testing.B) {
			c := connect(b, durable(b).addr)
			dbtest.EachWrite(b, writers, func(ctx context.Context, w, i int) error {
				key := fmt.Sprint("bare/", w)
				res, err := c.Get(ctx, key)
				if err != nil {
					return err
				}
				var at int64
				if len(res.Kvs) > 0 {
					at = res.Kvs[0].ModRevision
				}
				_, err = c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", at)).
					Then(clientv3.OpPut(key, fmt.Sprintf(`{"Image":"%s%d"}`, dbtest.Image, i))).Commit()
				return err
			})
		})
		b.Run(fmt.Sprintf("writers=%d/setpoint", writers), func(b *testing.B) {
			dbtest.UpdateApps(b, open(b, durable(b).addr, etcd.Config{}), writers)
		})
	}
}

// BenchmarkLatency compares the time from a commit to the handler of an informer, of objects and of a prefix, with that to a watch of the
// client.
func BenchmarkLatency(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		addr, seen := durable(b).addr, make(chan time.Time, 1)
		reader, writer := connect(b, addr), connect(b, addr)
		ctx, stop := context.WithCancel(b.Context())
		events := reader.Watch(ctx, "a")
		var reading sync.WaitGroup
		reading.Go(func() { // ends with stop
			for range events {
				select {
				case seen <- time.Now():
				case <-ctx.Done():
				}
			}
		})
		dbtest.Latency(b, seen, func(i int) error {
			_, err := writer.Put(b.Context(), "a", fmt.Sprint(i))
			return err
		})
		stop()
		reading.Wait()
	})
	b.Run("setpoint", func(b *testing.B) {
		addr := durable(b).addr
		dbtest.AppLatency(b, open(b, addr, etcd.Config{}), open(b, addr, etcd.Config{}))
	})
	b.Run("prefix", func(b *testing.B) {
		addr := durable(b).addr
		writer := connect(b, addr)
		write := func(i int) error {
			_, err := writer.Put(b.Context(), bareApps+"a", fmt.Sprintf(`{"Image":"%d"}`, i))
			return err
		}
		require.NoError(b, write(0))
		key := func(a keyed) string { return a.Key }
		dbtest.HandlerLatency(b, bareSource(b, connect(b, addr)), key, write)
	})
}

// keyed is a value of the bare client, and its key.
type keyed struct {
	Key string
	dbtest.App
}

// bareSource is the source of the values of the bare client.
func bareSource(b *testing.B, c *clientv3.Client) *etcd.Prefix[keyed] {
	p, err := etcd.NewPrefix(b.Context(), c, func(kv *mvccpb.KeyValue) (app keyed, err error) {
		err = json.Unmarshal(kv.Value, &app.App)
		app.Key = string(kv.Key[len(bareApps):])
		return app, err
	}, etcd.PrefixConfig{Prefix: bareApps})
	require.NoError(b, err)
	return p
}

var rows = dbtest.Rows()

const (
	bareApps = "bare/"                      // where the bare client has values
	apps     = "setpoint/objects/App/live/" // where the backend has objects of the same values
)

// fill writes n values and n objects, and returns the version before the last tenth of them. A transaction has one key if it is one of the
// changes of a drain, because the library writes one object at a time.
func fill(b *testing.B, addr string, n int) (before int64) {
	c := connect(b, addr)
	s := dbtest.Apps(b, open(b, addr, etcd.Config{}))
	model, err := s.Create(b.Context(), store.Object[dbtest.App]{Key: "model", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	object, err := c.Get(b.Context(), apps+model.Key)
	require.NoError(b, err)
	_, err = s.Delete(b.Context(), model.Key)
	require.NoError(b, err)
	values := map[string]string{bareApps: fmt.Sprintf(`{"Image":"%s"}`, dbtest.Image), apps: string(object.Kvs[0].Value)}
	put := func(from, to, together int) {
		var g sync.WaitGroup
		for w := range 16 {
			g.Go(func() { // ends after its part
				for i := from + w*together; i < to; i += 16 * together {
					for prefix, value := range values {
						var ops []clientv3.Op
						for key := i; key < min(i+together, to); key++ {
							ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%07d", prefix, key), value))
						}
						if _, err := c.Txn(b.Context()).Then(ops...).Commit(); err != nil {
							b.Error(err)
							return
						}
					}
				}
			})
		}
		g.Wait()
	}
	put(0, n-n/10, 100)
	res, err := c.Get(b.Context(), "now")
	require.NoError(b, err)
	put(n-n/10, n, 1)
	return res.Header.Revision
}

// decode decodes a value of the bare client.
func decode(b *testing.B, kv *mvccpb.KeyValue) (app dbtest.App) {
	require.NoError(b, json.Unmarshal(kv.Value, &app))
	return app
}

// BenchmarkList compares a list of objects, decoded, with as many values that the client reads in pages and encoding/json decodes. The
// server is another process.
func BenchmarkList(b *testing.B) {
	addr := startProcesses(b, 1).near()
	fill(b, addr, *rows)
	b.Run("bare", func(b *testing.B) {
		c := connect(b, addr)
		dbtest.EachRead(b, *rows, func() (int, error) {
			var all []dbtest.App
			for from, more := bareApps, true; more; {
				res, err := c.Get(b.Context(), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(bareApps)), clientv3.WithLimit(10_000))
				if err != nil {
					return len(all), err
				}
				for _, kv := range res.Kvs {
					all = append(all, decode(b, kv))
					from = string(kv.Key) + "\x00"
				}
				more = res.More
			}
			return len(all), nil
		})
	})
	b.Run("setpoint", func(b *testing.B) { dbtest.List(b, dbtest.Apps(b, open(b, addr, etcd.Config{})), *rows) })
	b.Run("prefix", func(b *testing.B) { dbtest.List(b, bareSource(b, connect(b, addr)), *rows) })
}

// BenchmarkDrain compares a watch that comes back after a pause, in which there were many changes, with as many changes that a watch of the
// client reads and encoding/json decodes. The server is another process.
func BenchmarkDrain(b *testing.B) {
	changes := *rows / 10
	addr := startProcesses(b, 1).near()
	before := fill(b, addr, *rows)
	b.Run("bare", func(b *testing.B) {
		c := connect(b, addr)
		dbtest.EachRead(b, changes, func() (n int, err error) {
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			for res := range c.Watch(ctx, bareApps, clientv3.WithPrefix(), clientv3.WithRev(before+1)) {
				if err := res.Err(); err != nil {
					return n, err
				}
				for _, e := range res.Events {
					decode(b, e.Kv)
					n++
				}
				if n >= changes {
					break
				}
			}
			return n, nil
		})
	})
	b.Run("setpoint", func(b *testing.B) {
		dbtest.Drain(b, dbtest.Apps(b, open(b, addr, etcd.Config{})), informer.Version(before), changes)
	})
	b.Run("prefix", func(b *testing.B) {
		dbtest.Drain(b, bareSource(b, connect(b, addr)), informer.Version(before), changes)
	})
}

// BenchmarkMemory compares the heap of a cache of a prefix with that of a map of the same values, which the client has read. The server is
// another process.
func BenchmarkMemory(b *testing.B) {
	addr := startProcesses(b, 1).near()
	fill(b, addr, *rows)
	measure := func(b *testing.B, read func() (keep any, n int)) {
		for b.Loop() {
			before := heap()
			keep, n := read()
			after := heap()
			require.Equal(b, *rows, n)
			b.ReportMetric(float64(after-min(before, after))/float64(n), "B/object")
			runtime.KeepAlive(keep)
		}
	}
	b.Run("bare", func(b *testing.B) {
		c := connect(b, addr)
		measure(b, func() (any, int) {
			all := map[string]keyed{}
			for from, more := bareApps, true; more; {
				res, err := c.Get(b.Context(), from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(bareApps)), clientv3.WithLimit(10_000))
				require.NoError(b, err)
				for _, kv := range res.Kvs {
					from = string(kv.Key) + "\x00"
					key := string(kv.Key[len(bareApps):])
					all[key] = keyed{key, decode(b, kv)}
				}
				more = res.More
			}
			return all, len(all)
		})
	})
	b.Run("prefix", func(b *testing.B) {
		source := bareSource(b, connect(b, addr))
		measure(b, func() (any, int) {
			inf, err := informer.New(source, func(a keyed) string { return a.Key }, informer.Config{})
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- inf.Run(ctx) }() // ends with stop
			require.NoError(b, inf.CatchUp(ctx))
			stop()
			require.NoError(b, <-done)
			return inf, inf.Indexer().Len()
		})
	})
}

// heap returns how many bytes are reachable.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
