//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// unsafeTables are tables that have the name of a table of leases, and on which something is not safe. % is the name, and
// the numbers are those of the problems in Postgres and in SQLite: none means that the table is safe there, or impossible.
var unsafeTables = []struct {
	what, ddl        string
	postgres, sqlite int
}{
	{"only a column", `CREATE TABLE % (name text PRIMARY KEY)`, 1, 1},
	{"no keys", `CREATE TABLE % (name text, term bigint, version text, value $bytes)`, 2, 1},
	{"no primary key", `CREATE TABLE % (name text, term bigint, version text, value $bytes, UNIQUE (name, term))`, 1, 1},
	{"no key on the term", `CREATE TABLE % (name text PRIMARY KEY, term bigint, version text, value $bytes)`, 1, 0},
	{"a column that is required", `CREATE TABLE % (name text PRIMARY KEY, term bigint, version text, value $bytes, zone text NOT NULL, UNIQUE (name, term))`, 1, 1},
	{"types", `CREATE TABLE % (name varchar(100) PRIMARY KEY, term text, version text, value $bytes, UNIQUE (name, term))`, 2, 2},
	{
		"keys with a condition", `CREATE TABLE % (name text, term bigint, version text, value $bytes);
		CREATE UNIQUE INDEX %_1 ON % (name) WHERE term > 0; CREATE UNIQUE INDEX %_2 ON % (name, term) WHERE term > 0`, 2, 1,
	},
	{
		"keys on an expression", `CREATE TABLE % (name text, term bigint, version text, value $bytes);
		CREATE UNIQUE INDEX %_1 ON % (lower(name)); CREATE UNIQUE INDEX %_2 ON % (lower(name), term)`, 2, 1,
	},
	{"keys that are checked late", `CREATE TABLE % (name text PRIMARY KEY, term bigint, version text, value $bytes, UNIQUE (name, term) DEFERRABLE)`, 1, 0},
	{
		"keys that include a column", `CREATE TABLE % (name text, term bigint, version text, value $bytes,
		UNIQUE (name) INCLUDE (term), UNIQUE (name, version) INCLUDE (term))`, 1, 0,
	},
	{"no log", `CREATE UNLOGGED TABLE % (name text PRIMARY KEY, term bigint, version text, value $bytes, UNIQUE (name, term))`, 1, 0},
	{"names that ignore case", `CREATE TABLE % (name text PRIMARY KEY COLLATE NOCASE, term bigint, version text, value $bytes)`, 0, 1},
}

// refusesUnsafeTables makes each of the tables, has it refused, and repairs it as the error says.
func refusesUnsafeTables(t *testing.T, db *sql.DB, d sqllease.Dialect, prefix string) {
	for i, c := range unsafeTables {
		want := map[sqllease.Dialect]int{sqllease.Postgres: c.postgres, sqllease.SQLite: c.sqlite}[d]
		if want == 0 {
			continue
		}
		bytes := map[sqllease.Dialect]string{sqllease.Postgres: "bytea", sqllease.SQLite: "blob"}[d]
		refusesUnsafeTable(t, db, d, fmt.Sprint(prefix, i), c.what, strings.ReplaceAll(c.ddl, "$bytes", bytes), want)
	}
}

// unsafeMariaDBTables are the same for MariaDB.
var unsafeMariaDBTables = []struct {
	what, ddl string
	problems  int
}{
	{"only a column", `CREATE TABLE % (name $name PRIMARY KEY)`, 1},
	{"no keys", `CREATE TABLE % (name $name, term bigint, version $version, value longblob)`, 2},
	{"no primary key", `CREATE TABLE % (name $name, term bigint, version $version, value longblob, UNIQUE (name), UNIQUE (name, term))`, 1},
	{"no key on the term", `CREATE TABLE % (name $name PRIMARY KEY, term bigint, version $version, value longblob)`, 1},
	{"a key on a prefix", `CREATE TABLE % (name $name PRIMARY KEY, term bigint, version $version, value longblob, UNIQUE (name(100), term))`, 1},
	{
		"another primary key", `CREATE TABLE % (name $name, term bigint, version $version, value longblob, id bigint DEFAULT 1 PRIMARY KEY,
		UNIQUE (name), UNIQUE (name, term))`, 1,
	},
	{
		"a column that is required", `CREATE TABLE % (name $name PRIMARY KEY, term bigint, version $version, value longblob, zone text NOT NULL,
		UNIQUE (name, term))`, 1,
	},
	{
		"names that ignore case", `CREATE TABLE % (name varchar(100) PRIMARY KEY, term int unsigned, version $version, value blob,
		UNIQUE (name, term))`, 3,
	},
	{
		"no transactions", `CREATE TABLE % (name varbinary(500) PRIMARY KEY, term bigint, version $version, value longblob,
		UNIQUE (name, term)) ENGINE=MyISAM`, 2,
	},
}

// refusesUnsafeMariaDBTables is refusesUnsafeTables for MariaDB.
func refusesUnsafeMariaDBTables(t *testing.T, db *sql.DB, prefix string) {
	for i, c := range unsafeMariaDBTables {
		ddl := strings.NewReplacer("$name", "varbinary(2000)", "$version", "varbinary(255)").Replace(c.ddl)
		refusesUnsafeTable(t, db, sqllease.MySQL, fmt.Sprint(prefix, i), c.what, ddl, c.problems)
	}
}

// refusesUnsafeTable makes a table, has it refused with so many problems, and repairs it as the error says.
func refusesUnsafeTable(t *testing.T, db *sql.DB, d sqllease.Dialect, table, what, ddl string, want int) {
	t.Run(what, func(t *testing.T) {
		ctx := context.Background()
		prefixless := table[strings.IndexByte(table, '.')+1:]
		_, err := db.Exec(strings.NewReplacer("%_", prefixless+"_", "%", table).Replace(ddl))
		require.NoError(t, err)
		s, err := sqllease.New(db, sqllease.Config{Dialect: d, Table: table})
		require.NoError(t, err)

		err = s.EnsureTable(ctx)
		require.Error(t, err, "an unsafe table is accepted")
		problems := strings.Split(err.Error(), "\n")
		assert.Len(t, problems, want, "%v", err)
		conn, err := db.Conn(ctx) // some repairs are transactions
		require.NoError(t, err)
		defer conn.Close()
		for _, problem := range problems {
			_, repair, ok := strings.Cut(problem, "with: ")
			require.True(t, ok, problem)
			for statement := range strings.SplitSeq(repair, "; ") {
				_, err := conn.ExecContext(ctx, statement)
				require.NoError(t, err, statement)
			}
			if err := s.EnsureTable(ctx); err == nil {
				break // one repair may do for several problems
			}
		}
		require.NoError(t, s.EnsureTable(ctx))
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1 << 40})
		if what == "keys that are checked late" {
			require.Error(t, err, "which no caller can miss")
			return
		}
		require.NoError(t, err)
		_, err = s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
		require.ErrorIs(t, err, leaderelect.ErrConflict)
	})
}

func TestUnsafeTableIsRejected(t *testing.T) {
	t.Parallel()
	t.Run("Postgres", func(t *testing.T) {
		server := servertest.Postgres(t, "fsync=off")
		db := openPostgres(t, "pgx", server.Addr())
		refusesUnsafeTables(t, db, sqllease.Postgres, "unsafe_")
		_, err := db.Exec(`CREATE SCHEMA ops`)
		require.NoError(t, err)
		refusesUnsafeTables(t, db, sqllease.Postgres, "ops.unsafe_")
	})
	t.Run("MariaDB", func(t *testing.T) {
		db := openMariaDB(t, "root", servertest.MariaDB(t).Addr(), recommended)
		refusesUnsafeMariaDBTables(t, db, "unsafe_")
		_, err := db.Exec(`CREATE DATABASE ops`)
		require.NoError(t, err)
		refusesUnsafeMariaDBTables(t, db, "ops.unsafe_")
	})
	t.Run("SQLite", func(t *testing.T) {
		db := openSQLite(t, filepath.Join(t.TempDir(), "leases.db"), "wal", forLeases)
		refusesUnsafeTables(t, db, sqllease.SQLite, "unsafe_")
	})
}

// Without the keys, a takeover does not wait for guarded transactions. That is why a store checks the keys.
func TestTakeoverDoesNotWaitWithoutKeyOnTerm(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	db := openPostgres(t, "pgx", server.Addr())
	_, err := db.Exec(`CREATE TABLE leases (name text PRIMARY KEY, term bigint, version text, value bytea)`)
	require.NoError(t, err)
	s, err := sqllease.New(db, sqllease.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	e, err := s.Create(ctx, leaderelect.Entry{Key: "lease", Term: 1})
	require.NoError(t, err)
	overtaken := func() error {
		return guardOf(db, s)(ctx, "lease", e.Term, func() {
			short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			defer cancel()
			next := e
			next.Term++
			if next, err = s.Update(short, next); err == nil {
				e = next
			}
		})
	}
	require.NoError(t, overtaken())
	require.NoError(t, err, "the takeover commits during a guarded transaction")
	require.ErrorContains(t, s.EnsureTable(ctx), "unique key on (name, term)")
	_, err = db.Exec(`ALTER TABLE leases ADD UNIQUE (name, term)`)
	require.NoError(t, err)
	require.NoError(t, s.EnsureTable(ctx))
	require.NoError(t, overtaken())
	require.Error(t, err, "now it waits")
}
