//go:build linux

package postgres_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

// Many transactions write one row, and then another one. A watch from before all of them has each row as it is now, once.
func eventHasPresentRow(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	for _, statements := range []string{
		`INSERT INTO T VALUES ('r', 1)`, `UPDATE T SET rev = 2; UPDATE T SET rev = 3`, `DELETE FROM T`, `INSERT INTO T VALUES ('r', 4)`,
		`INSERT INTO T VALUES ('s', 5)`, `UPDATE T SET rev = 6`, `INSERT INTO T VALUES ('gone', 7)`, `DELETE FROM T WHERE name = 'gone'`,
	} {
		exec(t, pool, regexp.MustCompile(`\bT\b`).ReplaceAllLiteralString(statements, sqlName(cfg)))
	}
	assert.Equal(t, []string{"Modified {r 6}", "Modified {s 6}", "Deleted {gone 0}"}, reported(t, pool, table, before.Version))
}

// The version of each event but the last of a transaction is in the middle of it. A watch from there reports the whole transaction.
func watchResumesInTransaction(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	at, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1), ('b', 1), ('c', 1)`)
	next := func(after informer.Version) informer.Event[site] {
		for e, err := range table.Watch(t.Context(), after) {
			require.NoError(t, err)
			return e
		}
		return informer.Event[site]{}
	}
	first := next(at.Version)
	assert.Equal(t, "a", first.Object.Name)
	assert.Equal(t, first, next(first.Version))
}

// After a failover and back, the server may have an older epoch, in which the versions of the later one mean nothing.
func watchExpiresWhenVersionsBeginAgain(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	epoch := pgx.Identifier{cfg.Schema, "epoch"}.Sanitize()
	exec(t, pool, `UPDATE `+epoch+` SET base = 1::bigint << 50`)
	table := sitesIn(t, pool, cfg)
	at, err := table.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	var seen []string
	var end error
	for e, err := range table.Watch(t.Context(), at.Version) {
		if end = err; err != nil {
			break
		}
		if seen = append(seen, e.Object.Name); len(seen) == 2 {
			break
		}
		exec(t, pool, `UPDATE `+epoch+` SET base = 0`)
		exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('b', 1)`)
	}
	require.ErrorIs(t, end, informer.ErrExpired)
	assert.Equal(t, []string{"a"}, seen)
}

// Two sessions find that the server may have lost transactions. The second one waits for the first one.
func epochBeginsOnce(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	exec(t, pool, `DELETE FROM `+pgx.Identifier{cfg.Schema, "epoch"}.Sanitize())
	query := `SELECT ` + pgx.Identifier{cfg.Schema, "epoch"}.Sanitize() + `()`
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	var first, second int64
	require.NoError(t, tx.QueryRow(t.Context(), query).Scan(&first))
	done := make(chan error, 1)
	go func() { done <- pool.QueryRow(t.Context(), query).Scan(&second) }() // the test waits for it
	for waiting := false; !waiting && len(done) == 0; time.Sleep(time.Millisecond) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waiting))
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
	assert.Equal(t, first, second)
}
