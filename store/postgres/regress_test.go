//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/storelease"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// mirror runs an informer of the objects of db until the test ends.
func mirror(t *testing.T, db *postgres.Backend) *store.Informer[dbtest.App] {
	t.Helper()
	inf, err := informer.New(dbtest.Apps(t, db), store.Key[dbtest.App], informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// passes waits until an informer has seen a list or an event beyond a version.
func passes[T any](t *testing.T, inf *informer.Informer[string, T], v informer.Version) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, inf.WaitForVersion(ctx, v+1), "the cache is at version %d", inf.Version())
}

// Nobody writes after the failover. Objects whose creation was lost leave the caches all the same, and those whose
// deletion was lost return to them.
func TestCachesDropLostWritesWithoutNewWrites(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	pool := connect(t, l.proxy.Addr())
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	apps := dbtest.Apps(t, db)
	cfg := newTable(t, pool)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('deleted', 1)`)
	deleted, err := apps.Create(t.Context(), store.Object[dbtest.App]{Key: "deleted"})
	require.NoError(t, err)
	l.lag(t)
	_, err = apps.Delete(t.Context(), "deleted")
	require.NoError(t, err)
	lost, err := apps.Create(t.Context(), store.Object[dbtest.App]{Key: "lost"})
	require.NoError(t, err)
	exec(t, pool, `DELETE FROM `+sqlName(cfg))
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('lost', 1)`)
	table := sitesIn(t, pool, cfg)
	objects, other, rows := mirror(t, db), mirror(t, db), follow(t, table)
	before := rows.Version()
	l.failOver(t)
	for _, inf := range []*store.Informer[dbtest.App]{objects, other} {
		passes(t, inf, lost.Version)
		assert.Equal(t, []string{"deleted"}, slices.Collect(inf.Keys()))
		got, _ := inf.Get("deleted")
		assert.Equal(t, deleted, got)
	}
	assert.InDelta(t, float64(objects.Version()), float64(other.Version()), 1, "the loss is noticed once")
	at := objects.Version()
	pool.Reset()
	next, err := apps.Create(t.Context(), store.Object[dbtest.App]{Key: "next"})
	require.NoError(t, err)
	assert.Equal(t, at+1, next.Version, "there is one gap")
	passes(t, rows, before)
	assert.Equal(t, map[string]site{"deleted": {"deleted", 1}}, cached(rows))
}

// The primary crashes, restarts, and goes on, so its versions continue after a gap. A standby that has not received
// the gap is promoted later. Its versions continue after a greater gap, or no cache would accept its lists.
func TestVersionsOfLaterServerAreGreater(t *testing.T) {
	t.Parallel()
	for i := range 4 { // by chance, one of them would succeed
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			l := newLoss(t)
			pool := connect(t, l.proxy.Addr())
			db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
			cfg := newTable(t, pool)
			table := sitesIn(t, pool, cfg)
			objects, rows := mirror(t, db), follow(t, table)
			write := func(name string) informer.Version {
				t.Helper()
				exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ($1, 1)`, name)
				o, err := dbtest.Apps(t, db).Create(t.Context(), store.Object[dbtest.App]{Key: name})
				require.NoError(t, err)
				return o.Version
			}
			write("kept")
			l.lag(t)
			before := rows.Version()
			l.primary.Restart()
			pool.Reset()
			lost := write("lost")
			passes(t, objects, lost-1)
			passes(t, rows, before)
			beforeFailover := rows.Version()
			l.failOver(t)
			pool.Reset()
			last := write("new")
			assert.Greater(t, last, lost)
			passes(t, objects, last-1) // and not only the gap
			assert.ElementsMatch(t, []string{"kept", "new"}, slices.Collect(objects.Keys()))
			passes(t, rows, beforeFailover)
			agree(t, connect(t, l.primary.Addr()), cfg, rows)
		})
	}
}

// A reader without the right to write cannot continue after the lost versions, but it learns that it has seen one.
func TestWatchOfReaderExpiresAtLostVersion(t *testing.T) {
	t.Parallel()
	primary := servertest.Postgres(t, "fsync=off")
	pool := connect(t, primary.Addr())
	cfg := postgres.Config{Schema: newSchema(t, pool)}
	schema := pgx.Identifier{cfg.Schema}.Sanitize()
	r, err := dbtest.Put(t.Context(), open(t, pool, cfg), "a", "1")
	require.NoError(t, err)
	exec(t, pool, `DELETE FROM `+schema+`.incarnation`) // as after a crash
	exec(t, pool, `CREATE ROLE reader LOGIN`)
	exec(t, pool, `GRANT USAGE ON SCHEMA `+schema+` TO reader`)
	exec(t, pool, `GRANT SELECT ON ALL TABLES IN SCHEMA `+schema+` TO reader`)
	reader, err := pgxpool.New(t.Context(), "postgres://reader@"+primary.Addr()+"/postgres?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	standby := servertest.PostgresStandby(t, primary.Addr(), "fsync=off")
	for name, from := range map[string]*pgxpool.Pool{"a role": reader, "a standby": connect(t, standby.Addr())} {
		db := open(t, from, cfg)
		for c, err := range db.Watch(t.Context(), "app", backend.Query{}, r.Version+1) {
			require.ErrorIs(t, err, backend.ErrExpired, "%s: %v", name, c)
		}
		for p, err := range db.List(t.Context(), "app", backend.Query{}) {
			require.NoError(t, err)
			assert.Equal(t, r.Version, p.Version)
		}
	}
}

// The takeover of a leader is lost in a failover. The elector notices, because it has seen its own record, and leads again with a greater
// term. The database then refuses the lost one.
func TestLeaderOfLostTermIsFenced(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	pool := connect(t, l.proxy.Addr())
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	apps := dbtest.Apps(t, db)
	records, err := store.Open(db, "Lease", store.Config[storelease.Record]{})
	require.NoError(t, err)
	leases := storelease.New(records, storelease.Config{})
	var ends []error
	leads := make(chan context.Context)
	elector, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: "shop", LeaseDuration: 4 * time.Second, ReleaseOnCancel: true, Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error {
			leads <- context.WithoutCancel(ctx) // with the term, as of a process that does not notice that its time is over
			<-ctx.Done()
			return nil
		},
		OnStoppedLeading: func(_ *leaderelect.Leadership, cause error) { ends = append(ends, cause) },
	})
	require.NoError(t, err)
	first := looptest.Start(t, elector.Run)
	kept := <-leads
	_, err = apps.Create(kept, store.Object[dbtest.App]{Key: "kept"})
	require.NoError(t, err)
	require.NoError(t, first.Stop())
	l.lag(t)
	second := looptest.Start(t, elector.Run)
	lost := <-leads
	_, err = apps.Create(lost, store.Object[dbtest.App]{Key: "lost"})
	require.NoError(t, err)
	l.failOver(t)
	again := <-leads
	_, err = apps.Create(lost, store.Object[dbtest.App]{Key: "lost"})
	require.ErrorIs(t, err, store.ErrFenced)
	_, err = apps.Create(again, store.Object[dbtest.App]{Key: "new"})
	require.NoError(t, err)
	require.NoError(t, second.Stop())
	require.Len(t, ends, 3)
	if !errors.Is(ends[1], leaderelect.ErrLeaseExpired) { // because the failover took too long
		require.ErrorIs(t, ends[1], leaderelect.ErrStoreRegressed)
	}
	list, err := apps.List(t.Context())
	require.NoError(t, err)
	var keys []string
	for _, o := range list.Items {
		keys = append(keys, o.Key)
	}
	assert.Equal(t, []string{"kept", "new"}, keys)
}
