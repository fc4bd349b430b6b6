//go:build linux

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// brief is how long a read may take in tests of half-open connections: more than a read on a new connection takes on a busy machine. longest
// is how long a test waits for a few of them.
const (
	brief   = time.Second
	longest = 30 * time.Second
)

// inTime fails the test unless f returns soon.
func inTime(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { // the test waits for it
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(longest):
		t.Fatalf("it has not returned after %v", longest)
	}
}

// The connection for notifications is half-open, and all others work. It is idle most of the time, so it is affected
// first.
func TestHalfOpenNotificationConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	near := connect(t, server.Addr())
	proxy := servertest.NewProxy(t, server.Addr())
	far := connect(t, proxy.Addr())
	t.Cleanup(proxy.Cut) // or closing the pool would wait, if the test fails
	db := open(t, near, postgres.Config{Schema: newSchema(t, near), Listen: far})
	db.SetListenPatience(brief) // and not that of the watch, which has to go on: a new watch would listen anew
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // watches until stop; the test waits for it
		defer close(ended)
		for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled, "%v", c)
			}
		}
	}()
	listening := func() (latest int) {
		err := near.QueryRow(ctx, `SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'
			AND backend_start = (SELECT max(backend_start) FROM pg_stat_activity WHERE query LIKE 'LISTEN%')`).Scan(&latest)
		assert.NoError(t, err)
		return latest
	}
	var first int
	require.Eventually(t, func() bool { first = listening(); return first != 0 }, longest, 10*time.Millisecond)
	proxy.Hang()
	first = listening() // again, since a slow first attempt may have been replaced
	require.Eventually(t, func() bool { return listening() != first }, longest, 10*time.Millisecond)
	stop()
	<-ended
}

// A connection becomes half-open at the end of a list, so the transaction of the list cannot be ended in order.
func TestListReturnsIfConnectionHangsAtItsEnd(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	near := connect(t, server.Addr())
	proxy := servertest.NewProxy(t, server.Addr())
	far := connect(t, proxy.Addr())
	t.Cleanup(proxy.Cut) // or closing the pool would wait, if the test fails
	schema := postgres.Config{Schema: newSchema(t, near)}
	db := open(t, far, schema)
	db.SetPatience(brief)
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	inTime(t, func() {
		for p, err := range db.List(t.Context(), "app", backend.Query{}) {
			assert.NoError(t, err)
			assert.Len(t, p.Records, 1)
			proxy.Hang()
		}
	})
	cfg := newTable(t, near)
	exec(t, near, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	table := sitesIn(t, far, cfg)
	table.SetPatience(brief)
	inTime(t, func() {
		for p, err := range table.ListPages(t.Context()) {
			assert.NoError(t, err)
			assert.Len(t, p.Items, 1)
			proxy.Hang()
		}
	})
}

// A server has disappeared, and every idle connection of the pool is half-open. Only the first read waits in vain:
// the next read does not try the other idle connections.
func TestOneReadDetectsHalfOpenConnections(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	near := connect(t, server.Addr())
	schema := postgres.Config{Schema: newSchema(t, near)}
	tableCfg := newTable(t, near)
	proxy := servertest.NewProxy(t, server.Addr())
	pool := connect(t, proxy.Addr())
	t.Cleanup(proxy.Cut) // or closing the pool would wait, if the test fails
	db, table := open(t, pool, schema), sitesIn(t, pool, tableCfg)
	db.SetPatience(brief)
	table.SetPatience(brief)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, near, `INSERT INTO `+sqlName(tableCfg)+` VALUES ('a', 1)`) // so that each watch has something to tell
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	for name, first := range map[string]func(ctx context.Context) error{
		"a watch of objects": func(ctx context.Context) error {
			for _, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
				return err
			}
			return nil
		},
		"a list of objects": func(ctx context.Context) error {
			for _, err := range db.List(ctx, "app", backend.Query{}) {
				return err
			}
			return nil
		},
		"a watch of a table": func(ctx context.Context) error {
			for _, err := range table.Watch(ctx, list.Version) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var idle []*pgxpool.Conn
			for range 4 {
				c, err := pool.Acquire(t.Context())
				require.NoError(t, err)
				idle = append(idle, c)
			}
			for _, c := range idle {
				c.Release()
			}
			proxy.Hang()
			inTime(t, func() {
				assert.ErrorContains(t, first(t.Context()), "the server has not answered in time")
				assert.NoError(t, first(t.Context()))
			})
		})
	}
}
