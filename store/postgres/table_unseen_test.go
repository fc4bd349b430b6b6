//go:build linux

package postgres_test

import (
	"context"
	"fmt"
	"strings"
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

// These tests hold the tables of README.md to what the server does.
func TestWhatLogSees(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "wal_level=logical")
	for name, test := range map[string]func(t *testing.T, pool *pgxpool.Pool){
		"partitions are seen, but not their removal":   partitionsAreSeen,
		"changes that a subscription applies are seen": subscriptionIsSeen,
	} {
		t.Run(name, func(t *testing.T) { test(t, connect(t, server.Addr())) })
	}
}

// reported returns the events that a watch reports after a version, up to a last transaction.
func reported(t *testing.T, pool *pgxpool.Pool, table *postgres.Table[site], after informer.Version) (seen []string) {
	t.Helper()
	last := versionNow(t, pool, table)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range table.Watch(ctx, after) {
		require.NoError(t, err)
		if e.Type != informer.Bookmark {
			seen = append(seen, fmt.Sprintf("%v %v", e.Type, e.Object))
		}
		if e.Version >= last {
			break
		}
	}
	return seen
}

func partitionsAreSeen(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE TABLE parted (name text PRIMARY KEY, rev integer NOT NULL) PARTITION BY RANGE (name)`)
	exec(t, pool, `CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM ('a') TO ('m')`)
	exec(t, pool, `CREATE TABLE parted_high PARTITION OF parted FOR VALUES FROM ('m') TO ('z')`)
	tables := map[string]*postgres.Table[site]{}
	from := map[string]informer.Version{}
	for _, name := range []string{"parted", "parted_low"} {
		cfg := postgres.TableConfig{Table: name}
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
		tables[name] = sitesIn(t, pool, cfg)
		l, err := tables[name].List(t.Context())
		require.NoError(t, err)
		from[name] = l.Version
	}
	exec(t, pool, `INSERT INTO parted VALUES ('b', 1)`)
	exec(t, pool, `INSERT INTO parted_low VALUES ('c', 1)`)
	exec(t, pool, `UPDATE parted SET name = 'x' WHERE name = 'b'`) // moves to another partition
	exec(t, pool, `CREATE TABLE parted_last PARTITION OF parted FOR VALUES FROM ('z') TO ('zz')`)
	exec(t, pool, `INSERT INTO parted_last VALUES ('z', 1)`)
	assert.Equal(t, []string{"Deleted {b 0}", "Modified {c 1}", "Modified {x 1}", "Modified {z 1}"}, reported(t, pool, tables["parted"], from["parted"]))
	assert.Equal(t, []string{"Modified {c 1}"}, reported(t, pool, tables["parted_low"], from["parted_low"]))
	l, err := tables["parted"].List(t.Context())
	require.NoError(t, err)
	exec(t, pool, `ALTER TABLE parted DETACH PARTITION parted_high`)
	assert.Empty(t, reported(t, pool, tables["parted"], l.Version), "x is gone")
}

func subscriptionIsSeen(t *testing.T, pool *pgxpool.Pool) {
	exec(t, pool, `CREATE DATABASE publisher`)
	cfg := pool.Config()
	cfg.ConnConfig.Database = "publisher"
	publisher, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer publisher.Close()
	const create = `CREATE TABLE replicated (name text PRIMARY KEY, rev integer NOT NULL)`
	exec(t, publisher, create)
	exec(t, publisher, `INSERT INTO replicated VALUES ('before', 1)`)
	exec(t, publisher, `CREATE PUBLICATION p FOR TABLE replicated`)
	exec(t, publisher, `SELECT pg_create_logical_replication_slot('slot', 'pgoutput')`)
	exec(t, pool, create)
	table := postgres.TableConfig{Table: "replicated"}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, table))
	source := sitesIn(t, pool, table)
	from, err := source.List(t.Context())
	require.NoError(t, err)
	exec(t, pool, fmt.Sprintf(`CREATE SUBSCRIPTION s CONNECTION 'host=%s port=%d user=%s dbname=publisher' PUBLICATION p
		WITH (create_slot = false, slot_name = 'slot')`, cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.ConnConfig.User))
	defer func() {
		_, _ = pool.Exec(context.Background(), `ALTER SUBSCRIPTION s DISABLE`)
		_, _ = pool.Exec(context.Background(), `ALTER SUBSCRIPTION s SET (slot_name = NONE)`)
		_, _ = pool.Exec(context.Background(), `DROP SUBSCRIPTION s`)
	}()
	applied := func(where string, n int) {
		require.Eventually(t, func() bool {
			var count int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM replicated WHERE `+where).Scan(&count))
			return count == n
		}, 30*time.Second, 10*time.Millisecond)
	}
	applied(`name = 'before'`, 1)
	exec(t, publisher, `INSERT INTO replicated VALUES ('after', 1)`)
	exec(t, publisher, `UPDATE replicated SET rev = 2`)
	applied(`rev = 2`, 2)
	exec(t, publisher, `DELETE FROM replicated WHERE name = 'after'`)
	applied(`true`, 1)
	assert.Equal(t, []string{"Modified {before 2}", "Deleted {after 0}"}, reported(t, pool, source, from.Version))
}

// The server returns the columns of a key in the order of its plan, which depends on the statistics of the catalog.
func TestOrderOfKeyDoesNotDependOnPlans(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off", "autovacuum=off").Addr())
	exec(t, pool, `CREATE TABLE ordered (n text, a integer, d date, c text, v integer, PRIMARY KEY (d, c, n, a))`)
	for _, column := range []string{"a", "n"} { // which moves the rows of the catalog
		exec(t, pool, `ALTER TABLE ordered ALTER COLUMN `+column+` SET STATISTICS 10`)
	}
	cfg := postgres.TableConfig{Table: "ordered"}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	table, err := postgres.NewTable(t.Context(), pool, pgx.RowToMap, cfg)
	require.NoError(t, err)
	for _, off := range []string{"nestloop", "hashjoin", "mergejoin", "indexscan, enable_bitmapscan, enable_indexonlyscan", "seqscan"} {
		for setting := range strings.SplitSeq(off, ", ") {
			exec(t, pool, `ALTER ROLE postgres SET enable_`+strings.TrimPrefix(setting, "enable_")+` = off`)
		}
		pool.Reset() // to sessions with the settings
		_, err := table.List(t.Context())
		require.NoError(t, err, "without %s", off)
		exec(t, pool, `ALTER ROLE postgres RESET ALL`)
	}
}
