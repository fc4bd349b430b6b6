//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
	"github.com/setpoint-go/setpoint/retry"
)

// elect runs an election on a store for a moment, and returns how it ended: with nil if that was by its context.
func elect(t *testing.T, s leaderelect.LeaseStore) error {
	t.Helper()
	e, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "shop", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { <-ctx.Done(); return nil },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	return e.Run(ctx)
}

// endsWith requires that an election ends at once, with an error that contains the text.
func endsWith(t *testing.T, s leaderelect.LeaseStore, text string) {
	t.Helper()
	err := elect(t, s)
	assert.ErrorContains(t, err, text)
	assert.True(t, retry.IsPermanent(err), "%v", err)
}

func TestElectionOnSQLStoreThatCannotWorkEnds(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	store := func(db *sql.DB, d sqllease.Dialect, table string) *sqllease.Store {
		return must(sqllease.New(db, sqllease.Config{Dialect: d, Table: table}))
	}
	for _, driver := range []string{"pgx", "postgres"} {
		db := openPostgres(t, driver, server.Addr())
		endsWith(t, store(db, sqllease.Postgres, "nowhere"), `there is no table "nowhere": call EnsureTable`)
		endsWith(t, store(db, sqllease.Postgres, "no_schema.leases"), `there is no table "no_schema"."leases": call EnsureTable`)
		endsWith(t, store(db, sqllease.SQLite, "leases"), "set Config.Dialect to sqllease.Postgres")
		require.ErrorContains(t, store(db, sqllease.SQLite, "leases").EnsureTable(t.Context()), "set Config.Dialect to sqllease.Postgres")

		leasesIn(t, db, sqllease.Postgres, "private_"+driver)
		_, err := db.Exec(`CREATE ROLE reader_` + driver + ` LOGIN; GRANT SELECT ON private_` + driver + ` TO reader_` + driver)
		require.NoError(t, err)
		dsn := "postgres://reader_" + driver + "@" + server.Addr() + "/postgres?sslmode=disable"
		reader := must(sql.Open(driver, dsn))
		t.Cleanup(func() { _ = reader.Close() })
		endsWith(t, store(reader, sqllease.Postgres, "private_"+driver), "permission denied")
		nobody := must(sql.Open(driver, "postgres://nobody@"+server.Addr()+"/postgres?sslmode=disable"))
		t.Cleanup(func() { _ = nobody.Close() })
		endsWith(t, store(nobody, sqllease.Postgres, "leases"), `role "nobody" does not exist`)
		require.NoError(t, elect(t, leasesIn(t, db, sqllease.Postgres, "leases_"+driver)))
	}

	file := openSQLite(t, filepath.Join(t.TempDir(), "leases.db"), "wal", forLeases)
	endsWith(t, store(file, sqllease.SQLite, "nowhere"), `there is no table "nowhere": call EnsureTable`)
	endsWith(t, store(file, sqllease.Postgres, "leases"), "set Config.Dialect to sqllease.SQLite")
	require.ErrorContains(t, store(file, sqllease.Postgres, "leases").EnsureTable(t.Context()), "set Config.Dialect to sqllease.SQLite")
	endsWith(t, store(openSQLite(t, filepath.Join(t.TempDir(), "no", "leases.db"), "wal", forLeases), sqllease.SQLite, "leases"), "unable to open")

	down := openPostgres(t, "pgx", servertest.FreeAddr(t))
	require.NoError(t, elect(t, store(down, sqllease.Postgres, "leases")), "an outage ends no election")
}

func TestElectionOnMariaDBThatCannotWorkEnds(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t)
	store := func(db *sql.DB, d sqllease.Dialect, table string) *sqllease.Store {
		return must(sqllease.New(db, sqllease.Config{Dialect: d, Table: table}))
	}
	for i, options := range []string{recommended, ""} {
		open := func(user string) *sql.DB { return openMariaDB(t, user, server.Addr(), options) }
		db := open("root")
		endsWith(t, store(db, sqllease.MySQL, "nowhere"), "there is no table `nowhere`: call EnsureTable")
		endsWith(t, store(db, sqllease.MySQL, "no_schema.leases"), "there is no table `no_schema`.`leases`: call EnsureTable")
		for _, other := range []sqllease.Dialect{sqllease.Postgres, sqllease.SQLite} {
			endsWith(t, store(db, other, "leases"), "set Config.Dialect to sqllease.MySQL")
			require.ErrorContains(t, store(db, other, "leases").EnsureTable(t.Context()), "set Config.Dialect to sqllease.MySQL")
		}

		private, reader := fmt.Sprint("private_", i), fmt.Sprint("reader_", i)
		s := leasesIn(t, db, sqllease.MySQL, private)
		for _, statement := range []string{`CREATE USER ` + reader, `CREATE USER nothing_` + reader, `GRANT USAGE ON test.* TO nothing_` + reader, `GRANT SELECT ON test.` + private + ` TO ` + reader} {
			_, err := db.Exec(statement)
			require.NoError(t, err)
		}
		read := open(reader)
		endsWith(t, store(read, sqllease.MySQL, private), "INSERT command denied")
		require.NoError(t, store(read, sqllease.MySQL, private).EnsureTable(t.Context()), "it may check the table")
		_, err := s.Create(t.Context(), leaderelect.Entry{Key: "lease", Term: 1})
		require.NoError(t, err)
		require.NoError(t, guardOf(read, store(read, sqllease.MySQL, private))(t.Context(), "lease", 1, func() {}), "SELECT is enough for a guard")
		endsWith(t, store(open("nobody"), sqllease.MySQL, "leases"), "Access denied for user")
		endsWith(t, store(open("nothing_"+reader), sqllease.MySQL, private), "Access denied for user")
		require.NoError(t, elect(t, leasesIn(t, db, sqllease.MySQL, fmt.Sprint("leases_", i))))
	}
	off := openMariaDB(t, "root", server.Addr(), "autocommit=0")
	require.ErrorContains(t, store(off, sqllease.MySQL, "leases_0").EnsureTable(t.Context()), "autocommit is off")
	require.NoError(t, elect(t, store(openMariaDB(t, "root", servertest.FreeAddr(t), ""), sqllease.MySQL, "leases")), "an outage ends no election")

	file := openSQLite(t, filepath.Join(t.TempDir(), "leases.db"), "wal", forLeases)
	endsWith(t, store(file, sqllease.MySQL, "leases"), "set Config.Dialect to sqllease.SQLite")
	postgres := openPostgres(t, "pgx", servertest.Postgres(t, "fsync=off").Addr())
	endsWith(t, store(postgres, sqllease.MySQL, "leases"), "set Config.Dialect to sqllease.Postgres")
}

func TestElectionOnRedisThatCannotWorkEnds(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	db := openRedis(t, server.Addr(), -1)
	require.NoError(t, elect(t, redisLeases(db, "{a}")))
	require.NoError(t, db.Set(t.Context(), "{b}:shop", "text", 0).Err())
	endsWith(t, redisLeases(db, "{b}"), "WRONGTYPE")
	require.NoError(t, db.ConfigSet(t.Context(), "requirepass", "secret").Err())
	endsWith(t, redisLeases(openRedis(t, server.Addr(), -1), "{c}"), "NOAUTH")
}
