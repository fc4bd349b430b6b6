//go:build linux

package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

// A table changes under a watch, so that the log lacks changes or cannot be read. The watch ends, and says what to do. Then everything
// is right again.
func TestWatchEndsWhenTableAndLogDriftApart(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "autovacuum=off")
	for name, c := range map[string]struct{ drift, want, heal string }{
		"a trigger is dropped":         {`DROP TRIGGER setpoint_insert ON T`, "call postgres.InstallTable", ""},
		"a trigger is disabled":        {`ALTER TABLE T DISABLE TRIGGER setpoint_update`, "call postgres.InstallTable", ""},
		"a dump was restored":          {`ALTER TABLE T DISABLE TRIGGER ALL; ALTER TABLE T ENABLE TRIGGER ALL`, "call postgres.InstallTable", ""},
		"the primary key is another":   {`ALTER TABLE T DROP CONSTRAINT T_pkey, ADD PRIMARY KEY (rev)`, `primary key has changed from ("name") to ("rev")`, `ALTER TABLE T DROP CONSTRAINT T_pkey, ADD PRIMARY KEY (name)`},
		"the key has no index":         {`ALTER TABLE T DROP CONSTRAINT T_pkey`, "no primary key", `ALTER TABLE T ADD PRIMARY KEY (name)`},
		"a column of the log is gone":  {`ALTER TABLE L DROP COLUMN name`, "call postgres.InstallTable", ""},
		"a first table inherits":       {`CREATE TABLE T_child () INHERITS (T)`, "call postgres.InstallTable", `INSERT INTO T_child VALUES ('of the child', 8)`},
		"the table is swapped":         {`ALTER TABLE T RENAME TO T_before; ALTER TABLE T_other RENAME TO T`, "call postgres.InstallTable", ""},
		"the table is made anew":       {`ALTER TABLE T RENAME TO T_before; CREATE TABLE T (name text PRIMARY KEY, rev integer NOT NULL)`, "call postgres.InstallTable", ""},
		"the columns are other ones":   {`ALTER TABLE T ALTER COLUMN rev SET DEFAULT 3`, informer.ErrExpired.Error(), ""},
		"a label of an enum is others": {`ALTER TYPE T_mood RENAME VALUE 'sad' TO 'blue'`, informer.ErrExpired.Error(), ""},
		"a policy is made":             {`CREATE POLICY p ON T USING (true)`, informer.ErrExpired.Error(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := connect(t, server.Addr())
			table := "drift_" + strings.ReplaceAll(strings.ToLower(name), " ", "_")
			cfg := postgres.TableConfig{Table: table, Columns: []string{"name", "rev"}, Schema: "log of " + table}
			do := func(sql string) {
				exec(t, pool, strings.NewReplacer("T_", table+"_", "TABLE L", "TABLE "+cfg.Log(), "ON T", "ON "+table, "TABLE T", "TABLE "+table,
					"TO T", "TO "+table, "INTO T", "INTO "+table, "(T)", "("+table+")").Replace(sql))
			}
			do(`CREATE TYPE T_mood AS ENUM ('sad', 'glad'); CREATE TABLE T (name text PRIMARY KEY, rev integer NOT NULL UNIQUE, mood T_mood);
				CREATE TABLE T_other (name text PRIMARY KEY, rev integer NOT NULL); INSERT INTO T_other VALUES ('of the other', 1)`)
			other := cfg
			other.Table = table + "_other"
			require.NoError(t, postgres.InstallTable(t.Context(), pool, other))
			require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
			do(`INSERT INTO T VALUES ('a', 1), ('b', 2)`)
			source := sitesIn(t, pool, cfg)
			inf := follow(t, source)
			begin := listOf(t, source)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var end error
			for _, err := range source.Watch(ctx, begin.Version) {
				if err != nil {
					end = err
					break
				}
				if name != "" {
					do(c.drift)
					name = ""
				}
			}
			require.ErrorContains(t, end, c.want)
			for _, err := range source.Watch(ctx, begin.Version) {
				require.ErrorContains(t, err, c.want, "also when it begins")
			}
			if c.want != informer.ErrExpired.Error() {
				_, err := source.List(ctx)
				require.ErrorContains(t, err, c.want)
			}
			_, _ = pool.Exec(ctx, `INSERT INTO `+table+` VALUES ('missed', 5)`) // without a trigger, or it fails
			if c.heal != "" {
				do(c.heal)
			}
			require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
			do(`INSERT INTO T VALUES ('c', 7)`)
			agree(t, pool, cfg, inf)
		})
	}
}

// The triggers of a table write one log. A second one in another schema would take them over.
func TestTableHasOneLog(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := newTable(t, pool)
	inf := follow(t, sitesIn(t, pool, cfg))
	other := cfg
	other.Schema = "another log"
	require.ErrorContains(t, postgres.InstallTable(t.Context(), pool, other), `its triggers write a log in the schema "`+cfg.Schema+`"`)
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	agree(t, pool, cfg, inf)
}

// Debezium makes such a publication. Tables without a replica identity cannot be updated then.
func TestPublicationOfAllTablesStopsNothing(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off", "wal_level=logical").Addr())
	exec(t, pool, `CREATE PUBLICATION everything FOR ALL TABLES`)
	cfg := newTable(t, pool)
	cfg.History = 2
	inf := follow(t, sitesIn(t, pool, cfg))
	for n := range 9 {
		exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', $1) ON CONFLICT (name) DO UPDATE SET rev = $1`, n)
	}
	agree(t, pool, cfg, inf)
	stop := follow(t, sitesIn(t, pool, cfg)) // trims when it begins
	agree(t, pool, cfg, stop)
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM `+cfg.Log()).Scan(&n))
		return n <= 3
	}, 20*time.Second, 10*time.Millisecond)
	exec(t, pool, `DELETE FROM `+pgx.Identifier{cfg.Schema, "epoch"}.Sanitize()) // a new epoch begins
	agree(t, pool, cfg, inf)
	storeWrites(t, pool)
}

// storeWrites writes objects of every kind of change.
func storeWrites(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	for range 3 {
		_, err := dbtest.Put(t.Context(), db, "a", "1")
		require.NoError(t, err)
	}
	assert.NotNil(t, db)
}
