package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
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

// BenchmarkHandler measures the time from a commit to a reader that waits: the watch of the client alone, and the handler of an
// informer.
func BenchmarkHandler(b *testing.B) {
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
		dbtest.HandlerLatency(b, open(b, addr, etcd.Config{}), open(b, addr, etcd.Config{}))
	})
}

// many writes n objects, several in a transaction, and returns the revision before.
func many(b *testing.B, addr string, n int) int64 {
	c, db := connect(b, addr), open(b, addr, etcd.Config{})
	_, err := dbtest.Apps(b, db).Create(b.Context(), store.Object[dbtest.App]{Key: "model", Value: dbtest.App{Image: dbtest.Image}})
	require.NoError(b, err)
	model, err := c.Get(b.Context(), "setpoint/objects/App/live/model")
	require.NoError(b, err)
	for i := 0; i < n; {
		var ops []clientv3.Op
		for ; len(ops) < 100; i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("setpoint/objects/App/live/%07d", i), string(model.Kvs[0].Value)))
		}
		_, err := c.Txn(b.Context()).Then(ops...).Commit()
		require.NoError(b, err)
	}
	return model.Header.Revision
}

var rows = flag.Int("rows", 100_000, "how many objects BenchmarkList lists, in hundreds; BenchmarkDrain reads a tenth as many changes")

// BenchmarkList compares a list of objects, decoded, with reading the same keys in pages through the client alone.
func BenchmarkList(b *testing.B) {
	n := *rows
	addr := durable(b).addr
	many(b, addr, n)
	b.Run("bare", func(b *testing.B) {
		c := connect(b, addr)
		for b.Loop() {
			count, from, to := 0, "setpoint/objects/App/live/", "setpoint/objects/App/live0"
			for more := true; more; {
				res, err := c.Get(b.Context(), from, clientv3.WithRange(to), clientv3.WithLimit(10_000))
				require.NoError(b, err)
				count += len(res.Kvs)
				more, from = res.More, string(res.Kvs[len(res.Kvs)-1].Key)+"\x00"
			}
			require.Equal(b, n+1, count)
		}
	})
	b.Run("setpoint", func(b *testing.B) {
		s := dbtest.Apps(b, open(b, addr, etcd.Config{}))
		for b.Loop() {
			l, err := s.List(b.Context())
			require.NoError(b, err)
			require.Len(b, l.Items, n+1)
		}
	})
}

// BenchmarkDrain compares reading changes of the past through the watch of the client alone and through the backend, as after a
// pause. Each change has a revision of its own, as those of the library have: etcd limits how many revisions it reads at once.
func BenchmarkDrain(b *testing.B) {
	n := *rows / 10
	addr := durable(b).addr
	before := many(b, addr, 100)
	var g sync.WaitGroup
	for w := range 16 {
		db := open(b, addr, etcd.Config{})
		g.Go(func() { // writes its part
			for i := w; i < n; i += 16 {
				_, err := putInto(b.Context(), db, "Drained", fmt.Sprint(i), backend.Record{Meta: []byte("{}"), Value: []byte(dbtest.Image)})
				assert.NoError(b, err)
			}
		})
	}
	g.Wait()
	b.Run("bare", func(b *testing.B) {
		c := connect(b, addr)
		for b.Loop() {
			ctx, stop := context.WithCancel(b.Context())
			count := 0
			for res := range c.Watch(ctx, "setpoint/objects/Drained/", clientv3.WithPrefix(), clientv3.WithRev(before+1)) {
				require.NoError(b, res.Err())
				if count += len(res.Events); count >= n {
					break
				}
			}
			stop()
		}
	})
	b.Run("backend", func(b *testing.B) {
		db := open(b, addr, etcd.Config{})
		for b.Loop() {
			count := 0
			for c, err := range db.Watch(b.Context(), "Drained", backend.Query{}, informer.Version(before)) {
				require.NoError(b, err)
				if c.Record.Key != "" {
					count++
				}
				if count >= n {
					break
				}
			}
		}
	})
}
