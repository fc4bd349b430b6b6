//go:build linux

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestInstallTableAgain(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"keeps the changes of transactions that overlap it": installationKeepsOverlappingChanges,
		"follows a renamed column of the key":               installationFollowsRenamedKey,
		"needs the owner of the table":                      installationNeedsOwner,
		"is not needed for the log of another server":       foreignLogBeginsAnew,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// A transaction gets its number after that of InstallTable, which waits for it.
func installationKeepsOverlappingChanges(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	inf := follow(t, sitesIn(t, pool, cfg))
	writing := begin(t, pool, cfg)
	exec(t, writing, `LOCK TABLE `+sqlName(cfg)+` IN ROW EXCLUSIVE MODE`) // as a statement does at its beginning
	installed := make(chan error, 1)
	go func() { installed <- postgres.InstallTable(t.Context(), pool, cfg) }() // the test waits for it
	for waiting := false; !waiting && len(installed) == 0; time.Sleep(time.Millisecond) {
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waiting))
	}
	exec(t, writing, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	writing.commit()
	require.NoError(t, <-installed)
	agree(t, pool, cfg, inf)
}

// The log has the old name in the key of a change that no watch has reported yet.
func installationFollowsRenamedKey(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	older := beginNumbered(t, pool, cfg)
	exec(t, pool, `UPDATE `+sqlName(cfg)+` SET rev = 2`)
	exec(t, pool, `ALTER TABLE `+sqlName(cfg)+` RENAME name TO id`)
	_, err := pool.Exec(t.Context(), `UPDATE `+sqlName(cfg)+` SET rev = 9`)
	require.ErrorContains(t, err, "does not exist", "the triggers name the column")
	cfg.Key = []string{"id"}
	sql, err := postgres.TableSQL(cfg)
	require.NoError(t, err)
	exec(t, pool, `ALTER TABLE `+sqlName(cfg)+` RENAME id TO name; ALTER TABLE `+sqlName(cfg)+` RENAME name TO id; `+sql) // one transaction
	exec(t, pool, `UPDATE `+sqlName(cfg)+` SET rev = 3`)
	table, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByPos[site], cfg)
	require.NoError(t, err)
	inf := follow(t, table)
	older.commit()
	v := versionNow(t, pool, table)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, inf.WaitForVersion(ctx, v))
	assert.Equal(t, map[string]site{"a": {"a", 3}}, cached(inf))
}

// A dump has the log of another server, with transactions that are still to come here.
func foreignLogBeginsAnew(t *testing.T, pool *pgxpool.Pool) {
	cfg := newTable(t, pool)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	table := sitesIn(t, pool, cfg)
	before := listOf(t, table)
	exec(t, pool, `INSERT INTO `+cfg.Log()+` (setpoint_xid, name) VALUES ('1000000000', 'b')`)
	exec(t, pool, `DELETE FROM `+cfg.Log()+` WHERE setpoint_xid < '1000000000'`)
	exec(t, pool, `UPDATE `+pgx.Identifier{cfg.Schema, "epoch"}.Sanitize()+` SET system = 1`)
	l := listOf(t, table)
	assert.Greater(t, l.Version, before.Version)
	for _, err := range table.Watch(t.Context(), before.Version) {
		require.ErrorIs(t, err, informer.ErrExpired)
	}
	exec(t, pool, `UPDATE `+sqlName(cfg)+` SET rev = 2`)
	assert.Equal(t, []string{"Modified {a 2}"}, reported(t, pool, table, l.Version))
}

// The owner has no other rights than to create a schema.
func installationNeedsOwner(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE owned (name text PRIMARY KEY, rev integer NOT NULL)`)
	exec(t, pool, `CREATE ROLE installer; GRANT CREATE ON DATABASE postgres TO installer; GRANT ALL ON owned TO installer`)
	sql, err := postgres.TableSQL(postgres.TableConfig{Table: "owned", Key: []string{"name"}, Schema: "owned log"})
	require.NoError(t, err)
	install := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			exec(t, tx, `SET LOCAL ROLE installer`)
			_, err := tx.Exec(t.Context(), sql)
			return err
		})
	}
	require.ErrorContains(t, install(), "must be owner of table owned")
	exec(t, pool, `ALTER TABLE owned OWNER TO installer`)
	require.NoError(t, install())
	require.NoError(t, install(), "it may be called again")
}
