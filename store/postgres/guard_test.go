//go:build linux

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// newLeases returns leases in a table of their own.
func newLeases(t testing.TB, pool *pgxpool.Pool) *sqllease.Store {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	leases, err := sqllease.New(db, sqllease.Config{})
	require.NoError(t, err)
	require.NoError(t, leases.EnsureTable(t.Context()))
	return leases
}

// lead makes this process lead, for an hour unless another process takes the lease. It returns the context of the leader, which resign ends.
func lead(t testing.TB, leases *sqllease.Store, key string) (leader context.Context, resign func()) {
	t.Helper()
	leads := make(chan context.Context)
	elector, err := leaderelect.New(leaderelect.Config{
		Store: leases, Key: key, LeaseDuration: time.Hour, ReleaseOnCancel: true,
		OnStartedLeading: func(ctx context.Context, l *leaderelect.Leadership) error {
			leads <- ctx
			<-ctx.Done()
			return nil
		},
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- elector.Run(ctx) }() // ends with stop; resign waits for it
	done := false
	resign = func() {
		if stop(); !done {
			done = true
			require.NoError(t, <-ended)
		}
	}
	t.Cleanup(resign)
	return <-leads, resign
}

func TestGuard(t *testing.T) {
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	leases := newLeases(t, pool)
	exec(t, pool, `CREATE TABLE orders (name text PRIMARY KEY)`)
	orders := func() (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM orders`).Scan(&n))
		return n
	}
	order := func(ctx context.Context, name string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := postgres.Guard(ctx, tx, leases); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, name)
			return err
		})
	}
	const takeOver, renew = `UPDATE leases SET term = term + 1, version = 'next' WHERE name = 'shop'`, `UPDATE leases SET version = 'renewed' WHERE name = 'shop'`
	leader, _ := lead(t, leases, "shop")

	t.Run("a leader writes, and its successor waits for that", func(t *testing.T) {
		require.NoError(t, order(leader, "first"))
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		require.NoError(t, postgres.Guard(leader, tx, leases))
		exec(t, tx, `INSERT INTO orders VALUES ('second')`)
		require.NoError(t, order(leader, "third"), "guarded transactions do not wait for each other")
		exec(t, pool, renew)
		_, err = pool.Exec(t.Context(), `SET lock_timeout = '50ms'; `+takeOver)
		require.ErrorContains(t, err, "lock timeout")
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, 3, orders())
	})
	t.Run("a replaced leader that does not know it is rejected", func(t *testing.T) {
		exec(t, pool, takeOver)
		l, ok := leaderelect.FromContext(leader)
		require.True(t, ok)
		require.NoError(t, l.Err())
		err := order(leader, "late")
		require.ErrorIs(t, err, sqllease.ErrFenced)
		require.EqualError(t, err, `postgres: guard by "shop": term 1: term is over`)
		assert.Equal(t, 3, orders())
		exec(t, pool, `DELETE FROM leases WHERE name = 'shop'`)
		require.ErrorIs(t, order(leader, "late"), sqllease.ErrFenced, "the record is gone")
	})
	t.Run("a leader that has resigned is rejected locally", func(t *testing.T) {
		leader, resign := lead(t, leases, "other")
		resign()
		exec(t, pool, `UPDATE leases SET term = 1 WHERE name = 'other'`)
		err := order(context.WithoutCancel(leader), "late")
		require.ErrorIs(t, err, sqllease.ErrFenced)
		require.ErrorIs(t, err, leaderelect.ErrTermEnded)
	})
	t.Run("an unguardable transaction is an error", func(t *testing.T) {
		require.ErrorContains(t, order(t.Context(), "late"), "postgres: guard: the context belongs to no leadership")
		leader, _ := lead(t, leases, `a\b`)
		require.EqualError(t, order(leader, "late"), `postgres: guard by "a\\b": term 1: the key is not plain text`)
		leader, _ = lead(t, leases, "third")
		ended, cancel := context.WithCancelCause(leader)
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(context.Background()) }()
		cancel(errGone)
		require.ErrorIs(t, postgres.Guard(ended, tx, leases), errGone)
		require.NoError(t, tx.Rollback(t.Context()))
		tx, err = pool.Begin(t.Context())
		require.NoError(t, err)
		exec(t, tx, `ALTER TABLE leases RENAME TO away`)
		var refused *pgconn.PgError
		require.True(t, errors.As(postgres.Guard(leader, tx, leases), &refused))
		assert.Equal(t, "42P01", refused.Code, "no such table")
		assert.PanicsWithValue(t, "postgres: Guard called with nil leases", func() { _ = postgres.Guard(leader, tx, nil) })
		assert.Equal(t, 3, orders())
	})
}

// An older transaction delays the cache. The writing key is held, and others are not.
func TestKeyIsHeldUntilTableCacheShowsItsTransaction(t *testing.T) {
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := newTable(t, pool)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1), ('b', 1)`)
	other := newTableInLog(t, pool, cfg.Schema)
	table := sitesIn(t, pool, cfg)
	var all []informer.Steps
	stepped := func(table *postgres.Table[site]) *informer.Informer[string, site] {
		inf, err := informer.New(table, siteName, informer.Config{})
		require.NoError(t, err)
		steps, err := inf.Steps(t.Context())
		require.NoError(t, err)
		t.Cleanup(steps.Stop)
		all = append(all, steps)
		return inf
	}
	sites, others := stepped(table), stepped(sitesIn(t, pool, other))
	read := func() { // one list or event of each
		for _, steps := range all {
			require.True(t, steps.Read(t.Context()))
			for steps.Apply() {
			}
			for _, handler := range steps.Handlers() {
				for steps.Deliver(handler) {
				}
			}
		}
	}
	var wrote informer.Version
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		return controller.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
			if wrote, err = table.VersionOf(ctx, tx); err == nil {
				_, err = tx.Exec(ctx, `UPDATE `+sqlName(cfg)+` SET rev = 2 WHERE name = $1`, name)
			}
			return err
		})
	}, controller.Config[string]{Reads: []controller.Informer{others}}, controller.For(sites))
	require.NoError(t, err)
	disconnect, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer disconnect()
	read()
	older, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = older.Rollback(context.Background()) }()
	_, err = table.VersionOf(t.Context(), older)
	require.NoError(t, err)
	step := func(key string) bool {
		c.Add(key)
		_, ok := c.Step(t.Context(), key)
		return ok
	}
	assert.True(t, step("a"))
	assert.False(t, step("a"), "no cache shows what was written")
	assert.True(t, step("b"))
	require.NoError(t, older.Commit(t.Context()))
	for sites.Version() < wrote || others.Version() < wrote {
		read()
	}
	got, _ := sites.Get("a")
	assert.Equal(t, 2, got.Rev)
	assert.True(t, step("a"))
}

func TestTableMayHaveUnreadColumns(t *testing.T) {
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	exec(t, pool, `CREATE TABLE wide (comment text, "Rev" integer, name text PRIMARY KEY, picture bytea)`)
	cfg := postgres.TableConfig{Table: "wide", Columns: []string{"Rev", "name"}}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	table := sitesIn(t, pool, cfg)
	begin, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO wide VALUES ('c', 1, 'a', 'p')`)
	exec(t, pool, `UPDATE wide SET "Rev" = 2`)
	exec(t, pool, `ALTER TABLE wide ADD COLUMN more integer`)
	exec(t, pool, `INSERT INTO wide VALUES ('c', 1, 'b', 'p', 7)`)
	exec(t, pool, `DELETE FROM wide WHERE name = 'a'`)
	list, err := table.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []site{{"b", 1}}, list.Items)
	var reported []site
	for e, err := range table.Watch(t.Context(), begin.Version) {
		require.NoError(t, err)
		if reported = append(reported, e.Object); len(reported) == 2 {
			break
		}
	}
	assert.Equal(t, []site{{Name: "a"}, {"b", 1}}, reported)
	for _, c := range []struct {
		columns []string
		want    string
	}{{[]string{"name", "revv"}, `it has no column "revv", which TableConfig.Columns names`}, {[]string{""}, "TableConfig.Columns[0] is empty"}} {
		cfg.Columns = c.columns
		_, err = postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[site], cfg)
		require.ErrorContains(t, err, c.want)
	}
}
