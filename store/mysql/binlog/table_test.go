//go:build linux

package binlog_test

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/binlog"
	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"
)

var cycles = flag.Int("cycles", 2, "how often each fault happens")

// TestMain makes the test binary a writer or a reader if the environment says so.
func TestMain(m *testing.M) {
	tabletest.WriterMain()
	readerMain()
	flag.Parse()
	dbtest.LimitParallel("4") // each server and each process needs memory
	os.Exit(m.Run())
}

// site is a row of the tables of these tests.
type site struct {
	Name string
	Rev  int
}

func siteName(s site) string { return s.Name }

func scanSite(row mysql.Row) (s site, err error) {
	err = row.Scan(&s.Name, &s.Rev)
	return s, err
}

func newServer(t testing.TB, settings ...string) *servertest.Server {
	t.Helper()
	return servertest.MariaDB(t, append([]string{"innodb-flush-log-at-trx-commit=2", "log-bin=log", "binlog-format=ROW"}, settings...)...)
}

// openPool returns a pool of connections to a database, and its data source name.
func openPool(user, addr, database, options string) (*sql.DB, string, error) {
	dsn := user + "@tcp(" + addr + ")/" + database + "?" + options
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, "", err
	}
	cfg.Logger = &driver.NopLogger{} // or it logs each connection that is cut
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, "", err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(8)
	return db, dsn, nil
}

// connect returns a pool of root until the test ends.
func connect(t testing.TB, server *servertest.Server, database string) *sql.DB {
	t.Helper()
	db, _, err := openPool("root", server.Addr(), database, "interpolateParams=true")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a connection may be broken
	return db
}

// execer executes statements: a pool or a transaction.
type execer interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

func do(t testing.TB, on execer, text string, args ...any) {
	t.Helper()
	_, err := on.ExecContext(context.WithoutCancel(t.Context()), text, args...)
	require.NoError(t, err, text)
}

var databases atomic.Int32

// newDatabase creates a database, and returns a pool for it.
func newDatabase(t testing.TB, server *servertest.Server) *sql.DB {
	t.Helper()
	name := fmt.Sprintf("db%d", databases.Add(1))
	do(t, connect(t, server, ""), `CREATE DATABASE `+name)
	return connect(t, server, name)
}

const (
	createSites = `CREATE TABLE sites (name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, rev INT)`
	putSite     = `INSERT INTO sites VALUES (?, ?) ON DUPLICATE KEY UPDATE rev = VALUES(rev)`
)

// sitesOn is the config of a table of a server.
func sitesOn(server *servertest.Server) binlog.TableConfig {
	return binlog.TableConfig{Table: "sites", DSN: "root@tcp(" + server.Addr() + ")/"}
}

// newSites creates a table in a database of its own.
func newSites(t testing.TB, server *servertest.Server) *sql.DB {
	t.Helper()
	db := newDatabase(t, server)
	do(t, db, createSites)
	return db
}

func sitesIn(t testing.TB, db *sql.DB, cfg binlog.TableConfig) *binlog.Table[site] {
	t.Helper()
	table, err := binlog.NewTable(t.Context(), db, scanSite, cfg)
	require.NoError(t, err)
	return table
}

func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// apply makes a change of the suite.
func apply(ctx context.Context, on execer, c informertest.Change) (err error) {
	if c.Delete {
		_, err = on.ExecContext(ctx, `DELETE FROM sites WHERE name = ?`, c.Name)
	} else {
		_, err = on.ExecContext(ctx, putSite, c.Name, c.Rev)
	}
	return err
}

// subject is a table for the suite.
func subject(t testing.TB, db *sql.DB, source informer.ListWatcher[site]) informertest.Subject[site] {
	ctx := context.WithoutCancel(t.Context())
	return informertest.Subject[site]{
		Source: source,
		Put:    func(name string, rev int) error { return apply(ctx, db, informertest.Change{Name: name, Rev: rev}) },
		Delete: func(name string) error { return apply(ctx, db, informertest.Change{Name: name, Delete: true}) },
		Spoil: func(bad string) error { // scan wants a number
			_, err := db.ExecContext(ctx, putSite, bad, nil)
			return err
		},
		Overlap: func(first, second informertest.Change, look func()) error {
			return inTx(ctx, db, func(one *sql.Tx) error {
				if err := apply(ctx, one, first); err != nil {
					return err
				}
				if err := inTx(ctx, db, func(two *sql.Tx) error { return apply(ctx, two, second) }); err != nil {
					return err
				}
				look()
				return nil
			})
		},
		Together: func(first, second informertest.Change) error {
			return inTx(ctx, db, func(tx *sql.Tx) error { return errors.Join(apply(ctx, tx, first), apply(ctx, tx, second)) })
		},
		Read:    func(s site) (string, int) { return s.Name, s.Rev },
		History: 100_000,
		Merges:  true,
	}
}

func TestTableKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
		db := newSites(t, server)
		table := sitesIn(t, db, sitesOn(server))
		table.SetCheckPeriod(100 * time.Millisecond)
		table.SetPatience(2 * time.Second) // or the server notices the end of a reader late
		s := subject(t, db, table)
		s.Objects = 2*1000 + 100 // three pages
		do(t, db, "CREATE TABLE others (n INT AUTO_INCREMENT PRIMARY KEY)")
		s.Bookmark = func() error {
			_, err := db.Exec("INSERT INTO others VALUES ()")
			return err
		}
		s.Expire = func() error { purge(t, db); return nil }
		s.Restart = func() error {
			time.Sleep(1100 * time.Millisecond) // the server notes the second in which a file has begun
			do(t, db, "DELETE FROM sites")
			do(t, db, "RESET MASTER")
			return nil
		}
		return s
	})
}

// purge removes all files of the binary log but a new one. The server keeps a file that a reader has open.
func purge(t testing.TB, db *sql.DB) {
	t.Helper()
	do(t, db, "FLUSH BINARY LOGS")
	var first, last string
	rows, err := db.Query("SHOW BINARY LOGS")
	require.NoError(t, err)
	for rows.Next() {
		require.NoError(t, rows.Scan(&last, new(int)))
	}
	require.NoError(t, rows.Err())
	require.Eventually(t, func() bool {
		_, err := db.Exec("PURGE BINARY LOGS TO '" + last + "'")
		return err == nil && db.QueryRow("SHOW BINARY LOGS").Scan(&first, new(int)) == nil && first == last
	}, 30*time.Second, 10*time.Millisecond)
}

// follow runs an informer of a table until the test ends.
func follow[T any](t testing.TB, source informer.ListWatcher[T], key func(T) string) *informer.Informer[string, T] {
	t.Helper()
	inf, err := informer.New(source, key, informer.Config{OnError: func(error) {}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// rowsOf reads the table with a query of the test.
func rowsOf(t testing.TB, db *sql.DB) map[string]site {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT name, rev FROM sites`)
	require.NoError(t, err)
	found := map[string]site{}
	for rows.Next() {
		s, err := scanSite(rows)
		require.NoError(t, err)
		found[s.Name] = s
	}
	require.NoError(t, rows.Err())
	return found
}

// agree waits until the cache has the rows of the table.
func agree(t testing.TB, db *sql.DB, inf *informer.Informer[string, site]) {
	t.Helper()
	want := rowsOf(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		require.NoError(t, inf.CatchUp(ctx))
		got := maps.Collect(inf.All())
		if maps.Equal(want, got) {
			return
		}
		require.NoError(t, ctx.Err(), "the cache has %v, want %v", got, want)
	}
}

// next returns the next event of a watch that is not a bookmark.
func next(t testing.TB, events <-chan informer.Event[site]) informer.Event[site] {
	t.Helper()
	for {
		select {
		case e := <-events:
			if e.Type != informer.Bookmark {
				return e
			}
		case <-time.After(20 * time.Second):
			t.Fatal("no event")
		}
	}
}

// watch watches a table from its present version until the test ends.
func watch(t testing.TB, table *binlog.Table[site]) <-chan informer.Event[site] {
	t.Helper()
	l, err := table.List(t.Context())
	require.NoError(t, err)
	events := make(chan informer.Event[site], 10_000)
	loop := looptest.StartIn(context.WithoutCancel(t.Context()), t, func(ctx context.Context) error {
		for e, err := range table.Watch(ctx, l.Version) {
			if err != nil {
				return err
			}
			events <- e
		}
		return nil
	})
	t.Cleanup(func() { assert.ErrorIs(t, loop.Stop(), context.Canceled) })
	return events
}
