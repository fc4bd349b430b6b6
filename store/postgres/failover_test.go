//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// loss is a server that has gone back in time: a standby that lacks the last writes of its primary was promoted.
type loss struct {
	proxy   *servertest.Proxy // in front of whichever is the primary
	primary *servertest.Server
	standby *servertest.Server
}

func newLoss(t *testing.T) *loss {
	primary := servertest.Postgres(t, "fsync=off")
	return &loss{primary: primary, proxy: servertest.NewProxy(t, primary.Addr())}
}

// lag makes a standby that has everything until now, and gets nothing from now on.
func (l *loss) lag(t *testing.T) {
	t.Helper()
	l.standby = servertest.PostgresStandby(t, l.primary.Addr(), "fsync=off")
	l.standby.Stop()
}

// failOver kills the primary and promotes the standby.
func (l *loss) failOver(t *testing.T) {
	t.Helper()
	l.primary.Kill()
	l.standby.Start()
	l.promote(t)
	l.useStandby()
}

// promote makes the standby a primary, to which the proxy does not lead yet.
func (l *loss) promote(t *testing.T) {
	t.Helper()
	servertest.PromotePostgres(t, l.standby)
}

// useStandby makes the promoted standby the primary.
func (l *loss) useStandby() {
	l.proxy.Redirect(l.standby.Addr())
	l.proxy.Cut()
	l.primary = l.standby
}

// A watch was away while a standby that lacks its version was promoted and wrote more than was lost. Those
// versions now have other changes than the watch has seen, so the watch must not continue.
func TestWatchDoesNotResumeFromVersionLostInFailover(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	pool := connect(t, l.proxy.Addr())
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	kept, err := dbtest.Put(t.Context(), db, "kept", "1")
	require.NoError(t, err)
	l.lag(t)
	var lost backend.Record
	for i := range 3 {
		lost, err = dbtest.Put(t.Context(), db, fmt.Sprint("lost ", i), "1")
		require.NoError(t, err)
	}
	l.failOver(t)
	pool.Reset()
	watch := func(after informer.Version) (reported []string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for c, err := range db.Watch(ctx, "app", backend.Query{}, after) {
			if err != nil {
				return reported, err
			}
			if reported = append(reported, c.Record.Key); c.Record.Key == "last" {
				break
			}
		}
		return reported, nil
	}
	_, err = watch(lost.Version)
	require.ErrorIs(t, err, backend.ErrExpired, "the new server is behind it")
	var later backend.Record
	for i := range 9 {
		later, err = dbtest.Put(t.Context(), db, fmt.Sprint("later ", i), "1")
		require.NoError(t, err)
	}
	last, err := dbtest.Put(t.Context(), db, "last", "1")
	require.NoError(t, err)
	assert.Greater(t, later.Version, lost.Version, "a version is not reused")
	for v := kept.Version + 1; v <= lost.Version; v++ {
		_, err = watch(v)
		require.ErrorIs(t, err, backend.ErrExpired, "the new server is beyond it")
	}
	reported, err := watch(kept.Version)
	require.NoError(t, err, "everything up to here is unchanged")
	assert.Len(t, reported, 10)
	reported, err = watch(later.Version)
	require.NoError(t, err)
	assert.Equal(t, []string{"last"}, reported)
	// A second failover loses the writes after the first one.
	l.lag(t)
	_, err = dbtest.Put(t.Context(), db, "lost too", "1")
	require.NoError(t, err)
	l.failOver(t)
	pool.Reset()
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "last", "2")
	require.NoError(t, err)
	_, err = watch(last.Version + 1)
	require.ErrorIs(t, err, backend.ErrExpired)
	reported, err = watch(last.Version)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "last"}, reported)
}

// The poll after the failover compares all rows, so the cache is correct. The version does not advance until the
// transaction IDs have passed the lost ones.
func TestQueryCacheIsCorrectAfterLossyFailover(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	pool := connect(t, l.proxy.Addr())
	exec(t, pool, `CREATE TABLE sites (name text PRIMARY KEY, rev integer NOT NULL)`)
	exec(t, pool, `INSERT INTO sites VALUES ('kept', 1)`)
	q, err := postgres.NewQuery(t.Context(), pool, `SELECT name, rev FROM sites`, pgx.RowToStructByName[site], siteName, poll.Config[site]{Interval: -1})
	require.NoError(t, err)
	inf, err := informer.New(q, siteName, informer.Config{})
	require.NoError(t, err)
	steps, err := inf.Steps(t.Context())
	require.NoError(t, err)
	defer steps.Stop()
	read := func() { // polls, and applies what the poll has found: at most five events
		t.Helper()
		for range 5 {
			q.Nudge() // so that there is an event, if only a bookmark
			require.True(t, steps.Read(t.Context()))
			for steps.Apply() {
			}
		}
	}
	l.lag(t)
	for i := range 3 {
		exec(t, pool, `INSERT INTO sites VALUES ($1, 1)`, fmt.Sprint("lost ", i))
	}
	exec(t, pool, `UPDATE sites SET rev = 2 WHERE name = 'kept'`)
	read()
	require.Len(t, cached(inf), 4)
	before := inf.Version()
	l.failOver(t)
	pool.Reset()
	exec(t, pool, `INSERT INTO sites VALUES ('later', 1)`)
	read()
	assert.Equal(t, map[string]site{"kept": {"kept", 1}, "later": {"later", 1}}, sitesNow(t, pool))
	assert.Equal(t, sitesNow(t, pool), cached(inf))
	assert.Equal(t, before, inf.Version(), "it never goes back")
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		v, err := q.VersionOf(t.Context(), tx)
		assert.LessOrEqual(t, v, before, "so no controller waits for this transaction")
		return err
	}))
}

// A server that crashes reuses transaction IDs that left no trace on its disk: those that were rolled back, and those
// of writers with synchronous_commit=off.
func TestTableCacheIsCorrectAfterCrash(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "wal_writer_delay=10s")
	pool := connect(t, server.Addr())
	cfg := newTable(t, pool)
	name := sqlName(cfg)
	exec(t, pool, `INSERT INTO `+name+` VALUES ('kept', 1)`)
	table := sitesIn(t, pool, cfg)
	for range 20 {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		exec(t, tx, `SELECT pg_current_xact_id()`)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	listed, err := table.List(t.Context())
	require.NoError(t, err)
	server.Restart()
	pool.Reset()
	exec(t, pool, `INSERT INTO `+name+` VALUES ('new', 1)`)
	for range 30 {
		exec(t, pool, `SELECT pg_current_xact_id()`)
	}
	versions := make(chan informer.Version)
	for range 8 { // the first one begins the epoch, and the others are in the same one
		go func() { // the test waits for it
			l, err := table.List(t.Context())
			assert.NoError(t, err)
			versions <- l.Version
		}()
	}
	after := <-versions
	assert.Greater(t, after, listed.Version)
	for range 7 {
		assert.InDelta(t, float64(after), float64(<-versions), 2*8) // each list may have written to find out that another one was faster
	}
	for e, err := range table.Watch(t.Context(), listed.Version) {
		require.ErrorIs(t, err, informer.ErrExpired, "%v", e)
		require.ErrorContains(t, err, "in a crash or a failover")
	}
	server.Stop() // in order, which loses nothing
	server.Start()
	pool.Reset()
	for e, err := range table.Watch(t.Context(), after) {
		require.NoError(t, err)
		assert.Equal(t, informer.Bookmark, e.Type)
		break
	}
}

// Writers that do not wait for the disk lose writes in a crash, and their versions with them.
func TestWatchDoesNotResumeFromVersionLostInCrash(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "synchronous_commit=off", "wal_writer_delay=10s")
	pool := connect(t, server.Addr())
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	_, err := dbtest.Put(t.Context(), db, "kept", "1")
	require.NoError(t, err)
	exec(t, pool, `CHECKPOINT`)
	// On a busy machine, the server may have written its log before it is killed. Then it has lost nothing, and dies once more.
	var lost backend.Record
	for crashes, left := 0, lost; left.Version == lost.Version; crashes++ {
		require.Less(t, crashes, 20, "the server loses nothing")
		for range 3 {
			lost, err = dbtest.Put(t.Context(), db, "lost", "1")
			require.NoError(t, err)
		}
		server.Restart()
		pool.Reset()
		left, err = db.Get(t.Context(), "app", "lost")
		require.NoError(t, err)
	}
	for i := range 9 {
		_, err = dbtest.Put(t.Context(), db, fmt.Sprint(i), "1")
		require.NoError(t, err)
	}
	for c, err := range db.Watch(t.Context(), "app", backend.Query{}, lost.Version) {
		require.ErrorIs(t, err, backend.ErrExpired, "%v", c)
	}
}
