package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/sqlite"
)

func TestOpenRejectsUnusableConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, setUp ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		for _, statement := range setUp {
			_, err := db.Exec(statement)
			require.NoError(t, err)
		}
		require.NoError(t, db.Close())
		return path
	}
	text := filepath.Join(dir, "text.db")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("This is no database. ", 100)), 0o600))
	for _, c := range []struct {
		path string
		cfg  sqlite.Config
		want string
	}{
		{"", sqlite.Config{}, "the path is empty"},
		{":memory:", sqlite.Config{}, "use store.NewMemory"},
		{"file:x.db?mode=memory", sqlite.Config{}, "use store.NewMemory"},
		{filepath.Join(dir, "missing", "x.db"), sqlite.Config{}, "no such file or directory"},
		{text, sqlite.Config{}, "not a database"},
		{file("x.db"), sqlite.Config{History: -1}, "Config.History is -1, must not be negative"},
		{file("x.db"), sqlite.Config{Poll: -1}, "Config.Poll is -1ns, must not be negative"},
		{file("x.db"), sqlite.Config{BusyTimeout: -1}, "Config.BusyTimeout is -1ns, must not be negative"},
		{file("x.db"), sqlite.Config{TablePrefix: `a"; DROP TABLE b; --`}, "Config.TablePrefix is"},
		{file("x.db"), sqlite.Config{TablePrefix: "sqlite_x"}, "must not begin with sqlite_"},
		{file("utf16.db", "PRAGMA encoding = 'UTF-16'", "CREATE TABLE a (b)"), sqlite.Config{}, "the encoding of the file is UTF-16le"},
		{file("foreign.db", "CREATE TABLE setpoint_state (name)", "INSERT INTO setpoint_state VALUES (1)"), sqlite.Config{}, "the table setpoint_state belongs to another program"},
		{file("empty.db", "CREATE TABLE setpoint_state (layout)"), sqlite.Config{}, "the table setpoint_state has no row"},
		{file("later.db", "CREATE TABLE setpoint_state (layout)", "INSERT INTO setpoint_state VALUES (2)"), sqlite.Config{}, "have layout 2, this version of the library needs 1"},
		{file("earlier.db", "CREATE TABLE setpoint_state (layout)", "INSERT INTO setpoint_state VALUES (0)"), sqlite.Config{}, "have layout 0, this version of the library needs 1"},
		{file("half.db", "CREATE TABLE setpoint_fences (lease)"), sqlite.Config{}, "create the tables: "},
	} {
		_, err := sqlite.Open(t.Context(), c.path, c.cfg)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, fmt.Sprintf("sqlite: open %q: ", c.path))
	}
}

func TestFailedOpenChangesNothing(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "half.db")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.Exec("CREATE TABLE setpoint_fences (lease)")
	require.NoError(t, err)
	_, err = sqlite.Open(t.Context(), path, sqlite.Config{})
	require.Error(t, err)
	var tables int
	require.NoError(t, db.QueryRow("SELECT count(*) FROM sqlite_schema").Scan(&tables))
	assert.Equal(t, 1, tables)
}

func TestOpenOfExistingFileChangesNothing(t *testing.T) {
	dir := looptest.MemoryDir(t)
	existing := sqlite.Config{Existing: true}
	missing := filepath.Join(dir, "typo.db")
	_, err := sqlite.Open(t.Context(), missing, existing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, missing)

	foreign := filepath.Join(dir, "foreign.db")
	db, err := sql.Open("sqlite", foreign)
	require.NoError(t, err)
	_, err = db.Exec("CREATE TABLE a (b)")
	require.NoError(t, err)
	require.NoError(t, db.Close())
	empty := filepath.Join(dir, "empty.db")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{foreign, empty} {
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		_, err = sqlite.Open(t.Context(), path, existing)
		require.ErrorContains(t, err, fmt.Sprintf("sqlite: open %q: the file has no table setpoint_state", path))
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 2)

	path := filepath.Join(dir, "x.db")
	_, err = dbtest.Put(t.Context(), open(t, path, sqlite.Config{}), "a", "1")
	require.NoError(t, err)
	r, err := open(t, path, existing).Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "a", r.Key)
}

func TestPathMayContainAnyCharacter(t *testing.T) {
	dir := filepath.Join(looptest.MemoryDir(t), "a b?c#d%20e&mode=memory;'\"ö")
	require.NoError(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "x?y=z#%41.db")
	_, err := dbtest.Put(t.Context(), open(t, path, sqlite.Config{}), "a", "1")
	require.NoError(t, err)
	r, err := open(t, path, sqlite.Config{}).Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, "1", string(r.Value))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		assert.True(t, strings.HasPrefix(e.Name(), "x?y=z#%41.db"), e.Name())
	}
}

func TestTwoPrefixesAreTwoDatabases(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	one, two := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{TablePrefix: "other_"})
	_, err := dbtest.Put(t.Context(), one, "a", "1", backend.Fence{Lease: "shop", Term: 7})
	require.NoError(t, err)
	r, err := two.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Zero(t, r)
	_, err = dbtest.Put(t.Context(), two, "a", "1", backend.Fence{Lease: "shop", Term: 6})
	require.NoError(t, err)
}

func TestObjectsSurviveReopen(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	require.NoError(t, err)
	const greatest = ^uint64(0)
	written, err := dbtest.Put(t.Context(), db, "a", "1", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = db.Get(t.Context(), "app", "a")
	require.Error(t, err, "it is closed")

	db = open(t, path, sqlite.Config{})
	r, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err)
	assert.Equal(t, written, r)
	_, err = dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest - 1})
	require.ErrorIs(t, err, backend.ErrFenced)
	next, err := dbtest.Put(t.Context(), db, "a", "2", backend.Fence{Lease: "shop", Term: greatest})
	require.NoError(t, err)
	assert.Equal(t, written.Version+1, next.Version)
}

func TestObjectsAndRowsCommitTogether(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	_, err := db.DB().Exec("CREATE TABLE orders (id TEXT)")
	require.NoError(t, err)
	s := dbtest.Apps(t, db)
	orders := func() (n int) {
		require.NoError(t, other.DB().QueryRow("SELECT count(*) FROM orders").Scan(&n))
		return n
	}
	order := func(tx *sql.Tx) {
		_, err := tx.Exec("INSERT INTO orders VALUES ('1')")
		require.NoError(t, err)
	}

	tx, err := db.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	order(tx)
	ctx := sqlite.WithTx(t.Context(), tx)
	_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
	require.NoError(t, err)
	_, err = s.Get(ctx, "a")
	require.NoError(t, err, "the transaction sees its own write")
	_, err = dbtest.Apps(t, other).Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound, "no other process does")
	require.NoError(t, tx.Rollback())
	_, err = s.Get(t.Context(), "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	assert.Zero(t, orders())

	tx, err = db.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	ctx = sqlite.WithTx(t.Context(), tx)
	a, err := s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
	require.NoError(t, err)
	_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a"})
	require.ErrorIs(t, err, store.ErrExists, "a rejection does not end the transaction")
	order(tx)
	b, err := s.Create(ctx, store.Object[dbtest.App]{Key: "b"})
	require.NoError(t, err)
	require.Greater(t, b.Version, a.Version)
	require.NoError(t, tx.Commit())
	assert.Equal(t, 1, orders())
	l, err := dbtest.Apps(t, other).List(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.Items, 2)
	assert.Equal(t, b.Version, l.Version)
}

// A transaction of another pool has read before another writer committed. It can no longer write.
func TestTransactionOnOldSnapshotWritesNothing(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db := open(t, path, sqlite.Config{})
	s := dbtest.Apps(t, db)
	deferred, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, deferred.Close()) }()
	tx, err := deferred.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	ctx := sqlite.WithTx(t.Context(), tx)
	_, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, store.ErrNotFound)
	_, err = s.Create(t.Context(), store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "theirs"}})
	require.NoError(t, err)
	_, err = s.Create(ctx, store.Object[dbtest.App]{Key: "a", Value: dbtest.App{Image: "mine"}})
	require.Error(t, err)
	require.NoError(t, tx.Rollback())
	a, err := s.Get(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, "theirs", a.Value.Image)
}

func TestWaitForWriterEndsWithContext(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	tx, err := other.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for name, db := range map[string]*sqlite.Backend{"through another handle": db, "through the same handle": other} {
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		_, err = dbtest.Put(ctx, db, "a", "1")
		require.ErrorIs(t, err, gone, name)
		cancel()
	}
	r, err := db.Get(t.Context(), "app", "a")
	require.NoError(t, err, "readers do not wait")
	assert.Zero(t, r)
	require.NoError(t, tx.Rollback())
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
}

func TestBusyWriterIsNamedAfterBusyTimeout(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, other := open(t, path, sqlite.Config{BusyTimeout: 20 * time.Millisecond}), open(t, path, sqlite.Config{})
	tx, err := other.DB().BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "a", "1")
	require.ErrorContains(t, err, `sqlite: write app "a": database is locked`)
	require.NoError(t, tx.Rollback())
}

// rows returns the number of rows of the log.
func rows(t *testing.T, db *sqlite.Backend) (n int) {
	t.Helper()
	require.NoError(t, db.DB().QueryRow("SELECT count(*) FROM setpoint_log").Scan(&n))
	return n
}

func TestHistoryIsTrimmed(t *testing.T) {
	const history = 10
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db := open(t, path, sqlite.Config{History: history})
	dbtest.HistoryIsTrimmed(t, db, open(t, path, sqlite.Config{}), history, func() int { return rows(t, db) })
}

// A file may be replaced by an older copy. A watch that has seen more than the copy has to start over.
func TestWatchFromUnknownVersionExpires(t *testing.T) {
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	r, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	for _, err := range db.Watch(t.Context(), "app", backend.Query{}, r.Version+1) {
		require.ErrorIs(t, err, backend.ErrExpired)
		require.ErrorContains(t, err, "the file is at version 1, not at 2")
	}
	var replaced time.Time
	for _, err := range db.Watch(t.Context(), "app", backend.Query{}, 0) { // the older copy comes while it watches
		if !replaced.IsZero() {
			require.ErrorIs(t, err, backend.ErrExpired)
			require.Less(t, time.Since(replaced), backend.BookmarkInterval/2, "it does not wait until it would be silent")
			break
		}
		require.NoError(t, err)
		replaced = time.Now()
		_, err = db.DB().Exec("UPDATE setpoint_state SET version = 0")
		require.NoError(t, err)
	}
}

// A commit flushes the disk. In WAL mode, that is not the default of SQLite.
func TestCommitsAreFlushed(t *testing.T) {
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	for _, pool := range []*sql.DB{db.Writer(), db.DB()} {
		var level int
		require.NoError(t, pool.QueryRow("PRAGMA synchronous").Scan(&level))
		assert.Equal(t, 2, level) // FULL
	}
}

func TestFullDiskLosesNothing(t *testing.T) {
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	_, err := dbtest.Put(t.Context(), db, "before", "1")
	require.NoError(t, err)
	var pages int
	require.NoError(t, db.DB().QueryRow("PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		_, err := db.Writer().Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n))
		require.NoError(t, err)
	}
	limit(pages)
	_, err = dbtest.Put(t.Context(), db, "large", strings.Repeat("x", 1<<20), backend.Fence{Lease: "shop", Term: 7})
	require.ErrorContains(t, err, `sqlite: write app "large": database or disk is full`)
	r, err := db.Get(t.Context(), "app", "large")
	require.NoError(t, err)
	assert.Zero(t, r)
	limit(1 << 30)
	_, err = dbtest.Put(t.Context(), db, "large", strings.Repeat("x", 1<<20), backend.Fence{Lease: "shop", Term: 6})
	require.NoError(t, err, "the term of the write that failed was not recorded")
	r, err = db.Get(t.Context(), "app", "before")
	require.NoError(t, err)
	assert.Equal(t, "1", string(r.Value))
}

func TestWatchSeesJoinedTransactionAndOtherHandle(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	var writes []func() error
	writes = append(writes,
		func() error {
			return inTx(t.Context(), db, func(ctx context.Context) error { _, err := dbtest.Put(ctx, db, "a", "1"); return err })
		},
		func() error { _, err := dbtest.Put(t.Context(), other, "a", "2"); return err },
		func() error { _, err := dbtest.Put(t.Context(), db, "a", "3"); return err },
	)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var reported []string
	require.NoError(t, writes[0]())
	for c, err := range db.Watch(ctx, "app", backend.Query{}, 0) {
		require.NoError(t, err)
		if c.Record.Key == "" {
			continue
		}
		if reported = append(reported, string(c.Record.Value)); len(reported) == len(writes) {
			break
		}
		require.NoError(t, writes[len(reported)]())
	}
	assert.Equal(t, []string{"1", "2", "3"}, reported)
}

func TestDamagedRecordIsNamed(t *testing.T) {
	db := open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{})
	_, err := dbtest.Put(t.Context(), db, "a", "1")
	require.NoError(t, err)
	_, err = db.DB().Exec("UPDATE setpoint_log SET record = x'ff'")
	require.NoError(t, err)
	_, err = db.Get(t.Context(), "app", "a")
	require.ErrorContains(t, err, `sqlite: get app "a": the record of version 1: `)
	for _, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.ErrorContains(t, err, "sqlite: list app: the record of version 1: ")
	}
	_, err = db.DB().Exec("INSERT INTO setpoint_fences VALUES ('shop', x'01')")
	require.NoError(t, err)
	_, err = dbtest.Put(t.Context(), db, "b", "1", backend.Fence{Lease: "shop", Term: 1})
	require.ErrorContains(t, err, `the term of lease "shop" has 1 bytes, not 8`)
}

// Every page of a list is from one snapshot, despite concurrent writes.
func TestPagedListIsASnapshot(t *testing.T) {
	path := filepath.Join(looptest.MemoryDir(t), "x.db")
	db, other := open(t, path, sqlite.Config{}), open(t, path, sqlite.Config{})
	const n = 2500
	require.NoError(t, inTx(t.Context(), db, func(ctx context.Context) error {
		for i := range n {
			if _, err := dbtest.Put(ctx, db, fmt.Sprintf("%04d", i), "1"); err != nil {
				return err
			}
		}
		return nil
	}))
	pages, keys := 0, 0
	for page, err := range db.List(t.Context(), "app", backend.Query{}) {
		require.NoError(t, err)
		assert.EqualValues(t, n, page.Version)
		for _, r := range page.Records {
			assert.Equal(t, fmt.Sprintf("%04d", keys), r.Key)
			assert.Equal(t, "1", string(r.Value))
			keys++
		}
		if pages++; pages == 1 {
			_, err := dbtest.Put(t.Context(), other, "2400", "2")
			require.NoError(t, err)
			_, err = dbtest.Put(t.Context(), other, "9999", "2")
			require.NoError(t, err)
		}
	}
	assert.Equal(t, 3, pages)
	assert.Equal(t, n, keys)
}

func TestProcessesMayCreateFileConcurrently(t *testing.T) {
	for range 10 {
		path := filepath.Join(looptest.MemoryDir(t), "x.db")
		errs := make(chan error)
		const handles = 8
		for i := range handles {
			go func() { // ends after a write; the test waits for its error
				errs <- func() error {
					db, err := sqlite.Open(t.Context(), path, sqlite.Config{})
					if err != nil {
						return err
					}
					_, err = dbtest.Put(t.Context(), db, fmt.Sprint(i), "1")
					return errors.Join(err, db.Close())
				}()
			}()
		}
		for range handles {
			require.NoError(t, <-errs)
		}
	}
}

// A wrong clock has no effect: no statement reads it, and the package measures durations with the monotonic clock.
func TestNoStatementReadsClock(t *testing.T) {
	statements := strings.ToLower(sqlite.Statements())
	require.Contains(t, statements, "insert into")
	for _, clock := range []string{"date", "time", "now", "julianday", "current_"} {
		assert.NotContains(t, strings.ReplaceAll(statements, "update", ""), clock)
	}
}

func TestHostileStringsAreData(t *testing.T) {
	dbtest.HostileStrings(t, open(t, filepath.Join(looptest.MemoryDir(t), "x.db"), sqlite.Config{}))
}
