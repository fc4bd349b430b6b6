//go:build linux

package postgres_test

import (
	_ "embed"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

//go:embed testdata/log1.sql
var log1 string

// A log with the old layout, which has superseded changes, is rejected, then migrated, and then yields everything.
func TestOlderLogIsMigrated(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := postgres.TableConfig{Table: "upgraded", Schema: "old log"}
	exec(t, pool, `CREATE TABLE upgraded (name text PRIMARY KEY, rev integer NOT NULL)`)
	exec(t, pool, log1)
	write := func() {
		exec(t, pool, `INSERT INTO upgraded SELECT n, 1 FROM generate_series(1, 300) n ON CONFLICT (name) DO UPDATE SET rev = upgraded.rev + 1`)
		for range 300 {
			exec(t, pool, `UPDATE upgraded SET rev = rev + 1 WHERE name = '1'`)
		}
		older, younger := beginNumbered(t, pool, cfg), begin(t, pool, cfg)
		younger.write(2)
		younger.commit()
		older.write(2)
		older.commit()
	}
	write()
	_, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[site], cfg)
	require.ErrorContains(t, err, "the log is of an older version of the library: call postgres.InstallTable")
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	inf := follow(t, sitesIn(t, pool, cfg))
	write() // entries of both kinds
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg), "it may be called again")
	write()
	agree(t, pool, cfg, inf)
	replayed := replay(t, sitesIn(t, pool, cfg), inf.Version())
	assert.Len(t, replayed, 300)
	assert.Equal(t, site{"1", 1 + 300 + 2*301}, replayed["1"])
	assert.Equal(t, site{"2", 1 + 2 + 2*3}, replayed["2"])
}

// No index covers the key.
func TestKeyNeedsNoIndex(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	exec(t, pool, `CREATE TABLE plain (name text NOT NULL, rev integer NOT NULL)`)
	cfg := postgres.TableConfig{Table: "plain", Key: []string{"name"}, Schema: "plain log"}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	inf := follow(t, sitesIn(t, pool, cfg))
	exec(t, pool, `INSERT INTO plain SELECT n, n FROM generate_series(1, 600) n`)
	exec(t, pool, `UPDATE plain SET rev = -rev WHERE rev % 2 = 0`)
	exec(t, pool, `DELETE FROM plain WHERE rev % 3 = 0`)
	exec(t, pool, `UPDATE plain SET name = name || '!' WHERE rev % 5 = 0`)
	agree(t, pool, cfg, inf)
}

// A watch of a row with a long history does not read the history again for each change.
func TestRowWithLongHistoryIsReadInLinearTime(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	cfg := seeded(t, pool, 1)
	table := sitesIn(t, pool, cfg)
	exec(t, pool, fmt.Sprintf(`DO $$ BEGIN FOR n IN 1..20000 LOOP UPDATE %s SET rev = n; COMMIT; END LOOP; END $$`, sqlName(cfg)))
	table.SetPatience(time.Second) // for each page
	l, err := table.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, site{"0", 20_000}, replay(t, table, l.Version)["0"])
}
