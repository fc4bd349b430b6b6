//go:build linux

package postgres_test

import (
	"regexp"
	"testing"

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
