//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

// Many transactions write one row, some of them several times. A watch then reads them all.
func eventMatchesItsTransaction(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	before, err := table.List(t.Context())
	require.NoError(t, err)
	type change struct {
		statements string
		event      informer.EventType
		rev        int
	}
	changes := []change{
		{`INSERT INTO T VALUES ('r', 1)`, informer.Added, 1},
		{`UPDATE T SET rev = 2`, informer.Modified, 2},
		{`UPDATE T SET rev = 3; UPDATE T SET rev = 4`, informer.Modified, 4},
		{`UPDATE T SET rev = 5; SAVEPOINT s; UPDATE T SET rev = 6; RELEASE s`, informer.Modified, 6},
		{`SAVEPOINT s; UPDATE T SET rev = 7; ROLLBACK TO s; UPDATE T SET rev = 8`, informer.Modified, 8},
		{`UPDATE T SET rev = 9; DELETE FROM T`, informer.Deleted, 9},
		{`INSERT INTO T VALUES ('r', 10); UPDATE T SET rev = 11`, informer.Modified, 11},
		{`DELETE FROM T; INSERT INTO T VALUES ('r', 12)`, informer.Added, 12},
		{`SELECT FROM T FOR UPDATE; UPDATE T SET rev = 13`, informer.Modified, 13},
		{`SELECT FROM T FOR UPDATE`, 0, 0},
		{`SAVEPOINT s; UPDATE T SET rev = 14; RELEASE s`, informer.Modified, 14},
		{`UPDATE T SET rev = rev`, informer.Modified, 14},
	}
	want := map[informer.Version]change{}
	var last informer.Version
	for _, c := range changes {
		require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
			sql := regexp.MustCompile(`\bT\b`).ReplaceAllLiteralString(c.statements, sqlName(cfg))
			if _, err = tx.Conn().PgConn().Exec(t.Context(), sql).ReadAll(); err != nil || c.event == 0 {
				return err
			}
			last, err = table.VersionOf(t.Context(), tx)
			want[last] = c
			return err
		}), c.statements)
	}
	got := map[informer.Version]change{} // of the last event of each transaction
	for e, err := range table.Watch(t.Context(), before.Version) {
		require.NoError(t, err)
		v := min(e.Version|1, last) // the last event may have the version of a later transaction
		got[v] = change{want[v].statements, e.Type, e.Object.Rev}
		if e.Version >= last {
			break
		}
	}
	assert.Equal(t, want, got)
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
	var told []string
	var end error
	for e, err := range table.Watch(t.Context(), at.Version) {
		if end = err; err != nil {
			break
		}
		if told = append(told, e.Object.Name); len(told) == 2 {
			break
		}
		exec(t, pool, `UPDATE `+epoch+` SET base = 0`)
		pool.Reset() // each session remembers the base
		exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('b', 1)`)
	}
	require.ErrorIs(t, end, informer.ErrExpired)
	assert.Equal(t, []string{"a"}, told)
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

// A merge join finds the new key first.
func movedRowIsDeletedFirst(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	table := sitesIn(t, pool, cfg)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('b', 1)`)
	at, err := table.List(t.Context())
	require.NoError(t, err)
	require.NoError(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		exec(t, tx, `SET LOCAL enable_hashjoin = off`)
		_, err := tx.Exec(t.Context(), `UPDATE `+sqlName(cfg)+` SET name = 'a'`)
		return err
	}))
	var told []string
	for e, err := range table.Watch(t.Context(), at.Version) {
		require.NoError(t, err)
		if told = append(told, fmt.Sprintf("%v %v", e.Type, e.Object)); len(told) == 2 {
			break
		}
	}
	assert.Equal(t, []string{"Deleted {b 1}", "Added {a 1}"}, told)
}

// As in lastStateWinsRegardlessOfTransactionIDs, but the list is read when the older transaction has ended and the younger one is not reported.
func listHasStateThatNoEventReports(t *testing.T, pool *pgxpool.Pool) {
	for _, c := range []struct{ before, younger, older, youngest string }{
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET rev = 1`, `UPDATE T SET rev = 2`, ``},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET rev = 1`, `UPDATE T SET rev = 2`, `UPDATE T SET rev = 3`},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET rev = 1`, `UPDATE T SET rev = 2`, `DELETE FROM T`},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET rev = 1`, `DELETE FROM T`, ``},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET rev = 1`, `DELETE FROM T`, `INSERT INTO T VALUES ('r', 3)`},
		{`INSERT INTO T VALUES ('r', 0)`, `DELETE FROM T`, `INSERT INTO T VALUES ('r', 2)`, ``},
		{``, `INSERT INTO T VALUES ('r', 1)`, `UPDATE T SET rev = 2`, ``},
		{``, `INSERT INTO T VALUES ('r', 1)`, `DELETE FROM T`, ``},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET name = 's'`, `UPDATE T SET name = 'r'`, ``},
		{`INSERT INTO T VALUES ('r', 0)`, `UPDATE T SET name = 's'`, `DELETE FROM T`, `INSERT INTO T VALUES ('s', 3)`},
	} {
		t.Run(c.younger+"; "+c.older+"; "+c.youngest, func(t *testing.T) {
			cfg := newTable(t, pool)
			in := func(tx querier, sql string) {
				if sql != "" {
					exec(t, tx, regexp.MustCompile(`\bT\b`).ReplaceAllLiteralString(sql, sqlName(cfg)))
				}
			}
			in(pool, c.before)
			older, between, younger := beginNumbered(t, pool, cfg), beginNumbered(t, pool, cfg), beginNumbered(t, pool, cfg)
			in(younger, c.younger)
			younger.commit()
			in(older, c.older)
			older.commit()
			in(pool, c.youngest)
			inf := follow(t, sitesIn(t, pool, cfg))
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			require.NoError(t, inf.WaitForVersion(ctx, 1), "it has listed")
			between.commit()
			agree(t, pool, cfg, inf)
		})
	}
}
