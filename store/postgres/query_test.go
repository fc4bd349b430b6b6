//go:build linux

package postgres_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
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

// An older transaction stays open. A query shows what a younger one has committed, but its version does not tell, so the key that
// has written is held.
func TestAKeyIsHeldUntilTheVersionOfAQueryTells(t *testing.T) {
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
	_, err = q.VersionOf(t.Context(), older)
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
	assert.False(t, step(), "and nobody can know that")
	require.NoError(t, older.Commit(t.Context()))
	read()
	assert.True(t, step())
}

func TestNewQueryRefusesWhatIsWrong(t *testing.T) {
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
