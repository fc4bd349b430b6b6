//go:build linux

package tabletest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"
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
)

// Site is a row of the table sites.
type Site struct {
	Name string
	Rev  int
}

// SiteName is the key of a row.
func SiteName(s Site) string { return s.Name }

// ScanSite reads a row.
func ScanSite[R interface{ Scan(dest ...any) error }](row R) (s Site, err error) {
	err = row.Scan(&s.Name, &s.Rev)
	return s, err
}

// The statements that create the table, and that write a row of it.
const (
	CreateSites = `CREATE TABLE sites (name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, rev INT)`
	PutSite     = `INSERT INTO sites VALUES (?, ?) ON DUPLICATE KEY UPDATE rev = VALUES(rev)`
)

// DSN returns the data source name of a database, for a user without a password.
func DSN(user, addr, database, options string) string {
	return user + "@tcp(" + addr + ")/" + database + "?" + options
}

// OpenPool returns a pool of connections. It does not log each connection that is cut.
func OpenPool(dsn string) (*sql.DB, error) {
	cfg, err := driver.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &driver.NopLogger{}
	connector, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(8)
	return db, nil
}

// Connect returns a pool of root until the test ends.
func Connect(t testing.TB, server *servertest.Server, database string) *sql.DB {
	t.Helper()
	db, err := OpenPool(DSN("root", server.Addr(), database, "interpolateParams=true"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a connection may be broken
	return db
}

// Execer executes statements: a pool, a connection, or a transaction.
type Execer interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// Do executes a statement.
func Do(t testing.TB, on Execer, text string, args ...any) {
	t.Helper()
	_, err := on.ExecContext(context.WithoutCancel(t.Context()), text, args...)
	require.NoError(t, err, text)
}

// NewDatabases returns a function that creates a database, and returns a pool for it. No two databases of a server have one name.
func NewDatabases() func(t testing.TB, server *servertest.Server) *sql.DB {
	var databases atomic.Int32
	return func(t testing.TB, server *servertest.Server) *sql.DB {
		t.Helper()
		name := fmt.Sprintf("db%d", databases.Add(1))
		Do(t, Connect(t, server, ""), "CREATE DATABASE "+name)
		return Connect(t, server, name)
	}
}

// InTx calls f with a transaction, and commits it if f returns nil.
func InTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
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
func apply(ctx context.Context, on Execer, c informertest.Change) (err error) {
	if c.Delete {
		_, err = on.ExecContext(ctx, `DELETE FROM sites WHERE name = ?`, c.Name)
	} else {
		_, err = on.ExecContext(ctx, PutSite, c.Name, c.Rev)
	}
	return err
}

// Subject returns a source of the table for the suite of sources.
func Subject(t testing.TB, db *sql.DB, source informer.ListWatcher[Site]) informertest.Subject[Site] {
	ctx := context.WithoutCancel(t.Context())
	return informertest.Subject[Site]{
		Source: source,
		Put:    func(name string, rev int) error { return apply(ctx, db, informertest.Change{Name: name, Rev: rev}) },
		Delete: func(name string) error { return apply(ctx, db, informertest.Change{Name: name, Delete: true}) },
		Spoil: func(bad string) error { // scan wants a number
			_, err := db.ExecContext(ctx, PutSite, bad, nil)
			return err
		},
		Overlap: func(first, second informertest.Change, look func()) error {
			return InTx(ctx, db, func(one *sql.Tx) error {
				if err := apply(ctx, one, first); err != nil {
					return err
				}
				if err := InTx(ctx, db, func(two *sql.Tx) error { return apply(ctx, two, second) }); err != nil {
					return err
				}
				look()
				return nil
			})
		},
		Together: func(first, second informertest.Change) error {
			return InTx(ctx, db, func(tx *sql.Tx) error { return errors.Join(apply(ctx, tx, first), apply(ctx, tx, second)) })
		},
		Read:    func(s Site) (string, int) { return s.Name, s.Rev },
		History: 100_000,
		Merges:  true,
	}
}

// CreateSitesOfParents creates the table, whose rows vanish with rows of another table, as a foreign key demands.
func CreateSitesOfParents(t testing.TB, db *sql.DB) {
	t.Helper()
	Do(t, db, "CREATE TABLE parents (name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY)")
	Do(t, db, strings.TrimSuffix(CreateSites, ")")+", FOREIGN KEY (name) REFERENCES parents (name) ON DELETE CASCADE)")
}

// SubjectOfParents is [Subject] for a table of [CreateSitesOfParents].
func SubjectOfParents(t testing.TB, db *sql.DB, source informer.ListWatcher[Site]) informertest.Subject[Site] {
	s := Subject(t, db, source)
	put := s.Put
	s.Put = func(name string, rev int) error {
		Do(t, db, "INSERT IGNORE INTO parents VALUES (?)", name)
		return put(name, rev)
	}
	s.Vanish = func(name string) error {
		_, err := db.ExecContext(t.Context(), "DELETE FROM parents WHERE name = ?", name)
		return err
	}
	return s
}

// Follow runs an informer of a table until the test ends.
func Follow[T any](t testing.TB, source informer.ListWatcher[T], key func(T) string) *informer.Informer[string, T] {
	t.Helper()
	inf, err := informer.New(source, key, informer.Config{OnError: func(error) {}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}

// RowsOf reads the table with a query of the test.
func RowsOf(t testing.TB, db *sql.DB) map[string]Site {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT name, rev FROM sites`)
	require.NoError(t, err)
	found := map[string]Site{}
	for rows.Next() {
		s, err := ScanSite(rows)
		require.NoError(t, err)
		found[s.Name] = s
	}
	require.NoError(t, rows.Err())
	return found
}

// Agree waits until the cache has the rows of the table. It calls each of before again and again.
func Agree(t testing.TB, db *sql.DB, inf *informer.Informer[string, Site], before ...func()) {
	t.Helper()
	want := RowsOf(t, db)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		for _, f := range before {
			f()
		}
		require.NoError(t, inf.CatchUp(ctx))
		got := maps.Collect(inf.All())
		if maps.Equal(want, got) {
			return
		}
		require.NoError(t, ctx.Err(), "the cache has %v, want %v", got, want)
	}
}

// Next returns the next event of a watch that is not a bookmark.
func Next(t testing.TB, events <-chan informer.Event[Site]) informer.Event[Site] {
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

// Watch watches a table from its present version until the test ends.
func Watch(t testing.TB, table informer.ListWatcher[Site]) <-chan informer.Event[Site] {
	t.Helper()
	l, err := table.List(t.Context())
	require.NoError(t, err)
	events := make(chan informer.Event[Site], 10_000)
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
