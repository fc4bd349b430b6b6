//go:build linux

package postgres_test

import (
	_ "embed"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

//go:embed testdata/layout1.sql
var layout1 string

// The schema of an older version of the library keeps its objects, and a program of that version goes on writing it.
func TestOlderLayoutIsMigrated(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off", "wal_level=logical").Addr())
	exec(t, pool, layout1)
	const older = `SELECT outcome FROM setpoint.write('app', $1, 0, true, false, '\x', '{}', '{}', '{}', 100)`
	_, err := postgres.Open(t.Context(), pool, postgres.Config{})
	require.ErrorContains(t, err, "it has layout 1, this version of the library needs 2: call postgres.Migrate")
	var outcome string
	require.NoError(t, pool.QueryRow(t.Context(), older, "before").Scan(&outcome))
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Config{}))
	require.NoError(t, postgres.Migrate(t.Context(), pool, postgres.Config{}), "it may be called again")
	exec(t, pool, `CREATE PUBLICATION everything FOR ALL TABLES`)
	db := open(t, pool, postgres.Config{})
	r, err := dbtest.Put(t.Context(), db, "new", "1")
	require.NoError(t, err)
	assert.EqualValues(t, 2, r.Version)
	require.NoError(t, pool.QueryRow(t.Context(), older, "after").Scan(&outcome))
	assert.Equal(t, "written", outcome)
}

//go:embed testdata/sharedlog.sql
var sharedLog string

// The tables of a schema shared one log in older versions of the library. InstallTable replaces it, table by table.
func TestSharedLogIsReplaced(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off", "wal_level=logical").Addr())
	exec(t, pool, `CREATE TABLE shared_one (name text PRIMARY KEY, rev integer NOT NULL); CREATE TABLE shared_two (LIKE shared_one INCLUDING ALL)`)
	exec(t, pool, sharedLog)
	exec(t, pool, `CREATE TABLE shared_new (LIKE shared_one INCLUDING ALL); INSERT INTO shared_one VALUES ('a', 1); INSERT INTO shared_two VALUES ('b', 1)`)
	left := func() (names []string) {
		rows, err := pool.Query(t.Context(), `SELECT relname FROM pg_class WHERE relnamespace = '"shared log"'::regnamespace AND relkind = 'r'
			AND relname IN ('changes', 'trimmed') UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = '"shared log"'::regnamespace
			AND proname LIKE 'record\_%' ORDER BY 1`)
		require.NoError(t, err)
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return names
	}
	require.Len(t, left(), 4)
	for i, want := range []struct {
		table string
		left  int
	}{{"shared_new", 4}, {"shared_one", 3}, {"shared_one", 3}, {"shared_two", 0}, {"shared_two", 0}} {
		cfg := postgres.TableConfig{Table: want.table, Schema: "shared log"}
		if i == 1 {
			_, err := postgres.NewTable(t.Context(), pool, pgx.RowToStructByName[site], cfg)
			require.ErrorContains(t, err, "call postgres.InstallTable")
		}
		require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg), want.table)
		assert.Len(t, left(), want.left, want.table)
		inf := follow(t, sitesIn(t, pool, cfg))
		exec(t, pool, `INSERT INTO shared_one VALUES ('c', 1) ON CONFLICT (name) DO UPDATE SET rev = shared_one.rev + 1`)
		exec(t, pool, `INSERT INTO shared_two VALUES ('c', 1) ON CONFLICT (name) DO UPDATE SET rev = shared_two.rev + 1`)
		agree(t, pool, cfg, inf)
	}
	exec(t, pool, `CREATE PUBLICATION everything FOR ALL TABLES; UPDATE "shared log".epochs SET base = base`)
}

// InstallTable may use a schema in which the program has tables of its own.
func TestOtherTablesInSchemaOfLogStay(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	exec(t, pool, `CREATE TABLE changes (name text PRIMARY KEY, rev integer NOT NULL); CREATE TABLE trimmed (source text)`)
	cfg := postgres.TableConfig{Table: "changes", Schema: "public"}
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	inf := follow(t, sitesIn(t, pool, cfg))
	exec(t, pool, `INSERT INTO changes VALUES ('a', 1); INSERT INTO trimmed VALUES ('a')`)
	agree(t, pool, cfg, inf)
}

// One value that jsonb cannot hold does not hide the others.
func TestViewShowsEveryObject(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	schema := newSchema(t, pool)
	db := open(t, pool, postgres.Config{Schema: schema})
	want := map[string]*string{}
	text := func(s string) *string { return &s }
	for value, shown := range map[string]*string{
		`{"a": "b"}`: text("b"), `{"a": "x\u0000y\u0000\u0000z"}`: text("x\ufffdy\ufffd\ufffdz"), `{"a": "\\u0000"}`: text(`\u0000`),
		`{"a": "\\\u0000"}`: text(`\` + "\ufffd"), `{"\u0000": "x", "a": 1}`: text("1"), `{"a": "\ud800"}`: nil, `{"a": 1e999999}`: nil, `null`: nil,
	} {
		key := fmt.Sprint("key ", len(want))
		want[key] = shown
		_, err := dbtest.Put(t.Context(), db, key, value)
		require.NoError(t, err)
	}
	rows, err := pool.Query(t.Context(), `SELECT key, value->>'a' FROM `+pgx.Identifier{schema, "current"}.Sanitize())
	require.NoError(t, err)
	got := map[string]*string{}
	var key string
	var value *string
	_, err = pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		got[key] = value
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

// A program has temporary tables with the names of the tables of the schema, and writes an object in its own transaction.
func TestTemporaryTablesAreNotTakenForThoseOfSchema(t *testing.T) {
	t.Parallel()
	pool := connect(t, servertest.Postgres(t, "fsync=off").Addr())
	db := open(t, pool, postgres.Config{Schema: newSchema(t, pool)})
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	for _, name := range []string{"objects", "state", "fences", "gaps", "incarnation", "text", "numeric"} {
		exec(t, tx, `CREATE TEMPORARY TABLE "`+name+`" (x integer) ON COMMIT DROP`)
	}
	_, err = dbtest.Put(postgres.WithTx(t.Context(), tx), db, "a", "1")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	r, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "1", string(r.Value))
}

// The default isolation of the database is not that of our transactions.
func TestIsolationOfSessionDoesNotMatter(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "default_transaction_isolation=serializable")
	pools := []int{0, 1, 2, 3}
	cfg := postgres.Config{Schema: "isolated"}
	errs := make(chan error)
	for range pools {
		pool := connect(t, server.Addr())
		go func() { errs <- postgres.Migrate(t.Context(), pool, cfg) }() // the loop below waits for it
	}
	for range pools {
		require.NoError(t, <-errs)
	}
	for i := range pools {
		db := open(t, connect(t, server.Addr()), cfg)
		go func() { // the loop below waits for it
			for n := range 50 {
				if _, err := dbtest.Put(t.Context(), db, fmt.Sprint(i, "/", n), "1"); err != nil {
					errs <- err
					return
				}
				if _, err := db.Get(t.Context(), "app", fmt.Sprint(i, "/", n)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range pools {
		require.NoError(t, <-errs)
	}
}
