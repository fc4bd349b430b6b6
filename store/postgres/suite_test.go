//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// connect returns a pool of connections to an address until the test ends.
func connect(t testing.TB, addr string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://postgres@"+addr+"/postgres?sslmode=disable&pool_max_conns=20")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// schemas counts the schemas of all tests.
var schemas atomic.Int32

// newSchema creates a schema.
func newSchema(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	name := fmt.Sprintf("test %d", schemas.Add(1))
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Config{Schema: name}))
	return name
}

// open opens a schema.
func open(t testing.TB, pool *pgxpool.Pool, cfg postgres.Config) *postgres.Backend {
	t.Helper()
	db, err := postgres.Open(t.Context(), pool, cfg)
	require.NoError(t, err)
	return db
}

// inTx calls f in a transaction.
func inTx(ctx context.Context, pool *pgxpool.Pool, f func(ctx context.Context, tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return f(postgres.WithTx(ctx, tx), tx) })
}

// inTxOf returns transactions for checks of package dbtest.
func inTxOf(pool *pgxpool.Pool) dbtest.InTx {
	return func(ctx context.Context, f func(ctx context.Context) error) error {
		return inTx(ctx, pool, func(ctx context.Context, _ pgx.Tx) error { return f(ctx) })
	}
}

func TestSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	for name, poll := range map[string]time.Duration{"notified": 5 * time.Second, "polling": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, two := connect(t, server.Addr()), connect(t, server.Addr())
			storetest.Run(t, func(t *testing.T) storetest.Database {
				cfg := postgres.Config{Schema: newSchema(t, one), History: 2000, Poll: poll}
				if name == "polling" { // there are no notifications
					_, err := one.Exec(t.Context(), `CREATE FUNCTION "`+cfg.Schema+`".pg_notify(text, text) RETURNS void LANGUAGE sql AS ''`)
					require.NoError(t, err)
				}
				return storetest.Database{
					Handles:   []backend.Backend{open(t, one, cfg), open(t, two, cfg)},
					Remembers: 2000,
					Expire: func(string) error {
						_, err := one.Exec(t.Context(), fmt.Sprintf(`WITH s AS (UPDATE "%[1]s".state SET horizon = version)
							DELETE FROM "%[1]s".objects WHERE NOT latest OR deleted`, cfg.Schema))
						return err
					},
					// The second transaction cannot write before the first one has committed.
					Overlap: func(first, second func(ctx context.Context) error, look func()) error {
						in := func(pool *pgxpool.Pool, f func(ctx context.Context) error) error {
							return inTx(t.Context(), pool, func(ctx context.Context, _ pgx.Tx) error { return f(ctx) })
						}
						if err := in(one, first); err != nil {
							return err
						}
						look()
						return in(two, second)
					},
				}
			})
		})
	}
}
