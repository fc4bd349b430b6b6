//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func siteName(s site) string { return s.Name }

// newQuery returns the query of a table, through a role that may read it and nothing else. It polls when it is nudged.
func newQuery(t testing.TB, server *servertest.Server, pool *pgxpool.Pool, table string) *postgres.Query[string, site] {
	t.Helper()
	exec(t, pool, `DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`)
	exec(t, pool, `GRANT SELECT ON `+table+` TO reader`)
	reader, err := pgxpool.New(t.Context(), "postgres://reader@"+server.Addr()+"/postgres?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(reader.Close)
	q, err := postgres.NewQuery(t.Context(), reader, `SELECT name, rev FROM `+table, pgx.RowToStructByName[site], siteName, poll.Config[site]{Interval: -1})
	require.NoError(t, err)
	return q
}

// Every change is followed by a poll, so that a change is an event of its own. A query cannot pass the cases in which
// transactions overlap: it may report a change before its version includes the transaction. The next test covers those.
func TestQueryKeepsTheSourceContract(t *testing.T) {
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	for i, c := range informertest.Cases[site]() {
		t.Run(c.Name, func(t *testing.T) {
			if strings.Contains(c.Name, "many writers") || strings.Contains(c.Name, "during changes") {
				t.Skip("a query may report a change before its version passes")
			}
			table := fmt.Sprint("sites", i)
			exec(t, pool, `CREATE TABLE `+table+` (name text PRIMARY KEY, rev integer NOT NULL)`)
			q := newQuery(t, server, pool, table)
			ctx := context.WithoutCancel(t.Context())
			change := func(sql string, args ...any) error {
				if _, err := pool.Exec(ctx, sql, args...); err != nil {
					return err
				}
				_, err := q.List(ctx)
				return err
			}
			c.Run(t, informertest.Subject[site]{
				Source: q,
				Put: func(name string, rev int) error {
					return change(`INSERT INTO `+table+` VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`, name, rev)
				},
				Delete:   func(name string) error { return change(`DELETE FROM `+table+` WHERE name = $1`, name) },
				Read:     func(s site) (string, int) { return s.Name, s.Rev },
				History:  1,
				Bookmark: func() error { q.Nudge(); return nil },
			})
		})
	}
}

// Eight writers change five rows in overlapping transactions. A cache at the version of a later transaction equals
// the table.
func TestQueryCacheMatchesQueryDespiteOverlaps(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off", "deadlock_timeout=10ms").Addr())
	exec(t, pool, `CREATE TABLE sites (name text PRIMARY KEY, rev integer NOT NULL)`)
	q, err := postgres.NewQuery(t.Context(), pool, `SELECT name, rev FROM sites`, pgx.RowToStructByName[site], siteName,
		poll.Config[site]{Interval: 2 * time.Millisecond})
	require.NoError(t, err)
	inf := follow(t, q)
	const writers, transactions = 8, 20
	errs := make(chan error)
	for w := range writers {
		go func() { // the test waits for its error
			random := rand.New(rand.NewPCG(0, uint64(w)))
			for range transactions * (*cycles) {
				if err := overlappingTransaction(t.Context(), pool, "sites", random); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	v := versionNow(t, pool, q)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, inf.WaitForVersion(ctx, v))
	assert.Equal(t, sitesNow(t, pool), cached(inf))
}

// versionNow returns a version that is not before any change that was committed.
func versionNow(t testing.TB, pool *pgxpool.Pool, source interface {
	VersionOf(ctx context.Context, tx pgx.Tx) (informer.Version, error)
}) (v informer.Version) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		v, err = source.VersionOf(t.Context(), tx)
		return err
	}))
	return v
}

// sitesNow returns the rows of the table sites, by name.
func sitesNow(t testing.TB, pool *pgxpool.Pool) map[string]site {
	t.Helper()
	return rowsOf(t, pool, `sites`)
}

// rowsOf returns the rows of a table, by name.
func rowsOf(t testing.TB, pool *pgxpool.Pool, table string) map[string]site {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT name, rev FROM `+table)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[site])
	require.NoError(t, err)
	byName := map[string]site{}
	for _, s := range all {
		byName[s.Name] = s
	}
	return byName
}

// cached returns what a cache holds.
func cached(inf *informer.Informer[string, site]) map[string]site { return maps.Collect(inf.All()) }

// An older transaction stays open. A query shows the commit of a younger one, but its version does not include it, so
// the writing key is held.
func TestKeyIsHeldUntilQueryVersionIncludesItsTransaction(t *testing.T) {
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	exec(t, pool, `CREATE TABLE sites (name text PRIMARY KEY, rev integer NOT NULL)`)
	exec(t, pool, `INSERT INTO sites VALUES ('a', 1)`)
	q := newQuery(t, server, pool, "sites")
	inf, err := informer.New(q, siteName, informer.Config{})
	require.NoError(t, err)
	steps, err := inf.Steps(t.Context())
	require.NoError(t, err)
	defer steps.Stop()
	c, err := controller.New("sites", func(ctx context.Context, name string) (controller.Result, error) {
		return controller.Result{}, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := q.VersionOf(ctx, tx)
			if err == nil {
				_, err = tx.Exec(ctx, `UPDATE sites SET rev = 2 WHERE name = $1`, name)
			}
			return err
		})
	}, controller.Config[string]{}, controller.For(inf))
	require.NoError(t, err)
	disconnect, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer disconnect()
	read := func() {
		t.Helper()
		q.Nudge()
		require.True(t, steps.Read(t.Context()))
		for steps.Apply() {
		}
		for _, handler := range steps.Handlers() {
			for steps.Deliver(handler) {
			}
		}
	}
	read()
	older, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = older.Rollback(context.Background()) }()
	open, err := q.VersionOf(t.Context(), older)
	require.NoError(t, err)
	step := func() bool {
		c.Add("a")
		_, ok := c.Step(t.Context(), "a")
		return ok
	}
	assert.True(t, step())
	read()
	got, _ := inf.Get("a")
	assert.Equal(t, 2, got.Rev, "the cache shows it")
	assert.False(t, step(), "which cannot be known")
	assert.Less(t, inf.Version(), open)
	require.NoError(t, older.Commit(t.Context()))
	read()
	assert.GreaterOrEqual(t, inf.Version(), open)
	assert.True(t, step())
}

func TestNewQueryRejectsInvalidConfig(t *testing.T) {
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	open := func(ctx context.Context, cfg poll.Config[site]) error {
		_, err := postgres.NewQuery(ctx, pool, `SELECT`, pgx.RowToStructByName[site], siteName, cfg)
		return err
	}
	require.EqualError(t, open(t.Context(), poll.Config[site]{Version: func(context.Context) (informer.Version, error) { return 0, nil }}),
		"postgres: new query: Config.Version is set, must be nil")
	require.ErrorContains(t, open(t.Context(), poll.Config[site]{Jitter: math.NaN()}), "postgres: new query: poll: new source: Config.Jitter is NaN")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	require.ErrorIs(t, open(ctx, poll.Config[site]{}), errGone)
	assert.PanicsWithValue(t, "postgres: NewQuery called with a nil pool, scan, or key", func() {
		_, _ = postgres.NewQuery[string, site](t.Context(), nil, "", nil, nil, poll.Config[site]{})
	})
	q, err := postgres.NewQuery(t.Context(), pool, `SELECT 1/0`, pgx.RowToStructByName[site], siteName, poll.Config[site]{Interval: time.Hour})
	require.NoError(t, err)
	_, err = q.List(t.Context())
	require.ErrorContains(t, err, "division by zero")
}
