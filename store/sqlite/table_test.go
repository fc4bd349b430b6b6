package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/informertest"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

// site is a row of the tables of these tests.
type site struct {
	Name string
	Rev  int
}

func siteName(s site) string { return s.Name }

func scanSite(row sqlite.Row) (s site, err error) {
	err = row.Scan(&s.Name, &s.Rev)
	return s, err
}

const (
	createSites = `CREATE TABLE sites (name TEXT NOT NULL PRIMARY KEY, rev INTEGER)`
	putSite     = `INSERT INTO sites VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET rev = excluded.rev`
)

// pool opens a pool of the user on a file, in a journal mode.
func pool(t testing.TB, path, journal string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=synchronous(OFF)&_pragma=journal_mode("+journal+")")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
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

// newTable creates a file with a table and its log.
func newTable(t testing.TB, journal, create string, cfg sqlite.TableConfig) *sql.DB {
	t.Helper()
	db := pool(t, filepath.Join(looptest.MemoryDir(t), "user's 100%.db"), journal)
	do(t, db, create)
	require.NoError(t, sqlite.InstallTable(t.Context(), db, cfg))
	return db
}

var sites = sqlite.TableConfig{Table: "sites", Poll: 5 * time.Millisecond}

func sitesIn(t testing.TB, db *sql.DB, cfg sqlite.TableConfig) *sqlite.Table[site] {
	t.Helper()
	table, err := sqlite.NewTable(t.Context(), db, scanSite, cfg)
	require.NoError(t, err)
	return table
}

// inTx calls f in a transaction.
func inUserTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
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

// subject is a table for the suite.
func subject(t testing.TB, db *sql.DB, source informer.ListWatcher[site]) informertest.Subject[site] {
	ctx := context.WithoutCancel(t.Context())
	apply := func(on execer, c informertest.Change) (err error) {
		if c.Delete {
			_, err = on.ExecContext(ctx, `DELETE FROM sites WHERE name = ?`, c.Name)
		} else {
			_, err = on.ExecContext(ctx, putSite, c.Name, c.Rev)
		}
		return err
	}
	return informertest.Subject[site]{
		Source: source,
		Put:    func(name string, rev int) error { return apply(db, informertest.Change{Name: name, Rev: rev}) },
		Delete: func(name string) error { return apply(db, informertest.Change{Name: name, Delete: true}) },
		Spoil: func(bad string) error { // scan wants a number
			_, err := db.ExecContext(ctx, putSite, bad, nil)
			return err
		},
		// SQLite has one writer at a time: the second transaction cannot begin before the first one has committed.
		Overlap: func(first, second informertest.Change, look func()) error {
			if err := apply(db, first); err != nil {
				return err
			}
			look()
			return apply(db, second)
		},
		Together: func(first, second informertest.Change) error {
			return inUserTx(ctx, db, func(tx *sql.Tx) error { return errors.Join(apply(tx, first), apply(tx, second)) })
		},
		Read:    func(s site) (string, int) { return s.Name, s.Rev },
		History: 100_000,
		Merges:  true,
		Expire: func() error {
			_, err := db.ExecContext(ctx, `DELETE FROM setpoint_changes`)
			return err
		},
		Bookmark: func() error { // another table has changed
			_, err := db.ExecContext(ctx, `INSERT INTO setpoint_changes (source, k1) VALUES ('another', 1)`)
			return err
		},
	}
}

func TestTableKeepsTheSourceContract(t *testing.T) {
	t.Parallel()
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			t.Parallel()
			informertest.Run(t, func(t *testing.T) informertest.Subject[site] {
				db := newTable(t, journal, createSites, sites)
				s := subject(t, db, sitesIn(t, db, sites))
				if journal == "WAL" {
					s.Objects = 2*1000 + 100 // three pages
				}
				saved := backup(t, db)
				s.Restart = func() error { restore(t, db, saved); return nil }
				return s
			})
		})
	}
}

// follow runs an informer of a table until the test ends.
func follow[T any](t testing.TB, source informer.ListWatcher[T], key func(T) string) *informer.Informer[string, T] {
	t.Helper()
	inf, err := informer.New(source, key, informer.Config{OnError: func(error) {}})
	require.NoError(t, err)
	dbtest.Follow(t, inf)
	return inf
}
