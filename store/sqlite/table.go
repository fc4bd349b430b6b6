package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Table is a source made of a table of your own, for informer.New. It is an [informer.ListWatcher], an [informer.Pager], an
// [informer.Bookmarker], and an [informer.Versioner]. All methods are safe for concurrent use.
//
// A log in the same file has the keys that were written: see [InstallTable]. The triggers write it in the transactions of the writers, and
// SQLite has one writer at a time, so its numbers are in commit order. Rows come from the table, as they are when they are read. So:
//
//  1. A cache at a version shows every change up to that version. It may also show later changes, which a watch then reports once more.
//  2. A row never goes back to an older state, and the last event of a row has its present state. Between them, states may be missing. The
//     events do not say which rows are new, and an event of a row that does not exist has only its key: see [informer.Event.KeyOnly]. An event
//     may also report a row that has not changed, or the deletion of a row that a cache never had.
//  3. The pages of a list are of one snapshot. So are the events of a page of a watch, which has up to 2,000 keys, and the part of the log
//     that they are read with.
//  4. A watch misses no change that the triggers see, of any process and any driver, and reports none that was rolled back.
//  5. Two keys are the same if they are stored the same, with the same type. So if a column of the key has text and blobs, scan must keep them
//     apart: two rows must never give the same key. If the collation of the key is NOCASE, an update of acme to ACME is a deletion and an
//     addition.
//  6. Each list and each watch checks that the triggers are those that were installed, and so does a watch whenever the schema of the file
//     has changed. If they are not, it fails, and the error says what to do. If they are, the watch ends with [informer.ErrExpired], because
//     rows may have changed without them.
//  7. A watch notices a file that was restored from a backup, or replaced by another one under the same name, and ends with
//     [informer.ErrNewHistory]: the informer lists again, and accepts an older version. It compares a random number, of 20 bits, in the log
//     and in the version.
//
// The key of an informer must depend on nothing but the columns of [TableConfig.Key].
//
// Versions of all tables of a file with one [TableConfig.Log] can be compared. [Table.VersionOf] returns the version of your own transaction.
// Versions are not consecutive: 20 bits of each are random.
//
// # Connections and locks
//
// A Table opens connections of its own, through the driver of your pool: one for each list and each watch that is in progress. So it never
// waits for a connection of the pool. Do not open the file with two drivers in one process: when either closes it, the operating system
// drops the locks of both. It reads in short transactions, except that a list in WAL mode holds a snapshot until its loop ends.
// Each watch trims the log once a minute, which is its only write.
//
// Use WAL mode (PRAGMA journal_mode = WAL). With a rollback journal, a reader makes a writer wait that wants to commit, so that a writer
// without a busy_timeout fails. Then a list is read into memory first, and [TableConfig.Poll] defaults to 1 s.
//
// A process that may only read the file can list and watch it. In WAL mode, it needs the right to write the directory of the file, unless
// another process has the file open.
type Table[T any] struct {
	cfg     TableConfig
	file    tableFile
	scan    func(Row) (T, error)
	queries tableQueries

	// triggers are those that the file must have. Tests replace it.
	triggers func(found) []trigger

	expected   follow.Expected // the results of VersionOf
	mayNotTrim sync.Once       // logs that
}

// Row is a row that a scan function reads.
type Row interface {
	// Scan copies the columns into dest, in the order of TableConfig.Columns, as that of [sql.Rows] does. It ignores a column whose
	// destination is nil.
	Scan(dest ...any) error
}

// NewTable returns the source of a table for which [InstallTable] was called. db is a pool of any driver, whose main database is the file of
// the table: NewTable asks it for the name of the file, and for its driver. scan reads a row that has the Columns of cfg. Several goroutines
// call scan concurrently. NewTable returns an error if a field of cfg is invalid, or if InstallTable has to be called first or again.
//
// If scan returns an error for a row, or panics, the object is unread: see [informer.Informer.Unread]. It affects no other row, if scan returns its
// key.
//
// For such a row, and for one that was deleted, scan is called with a row that has only the columns of the key: Scan leaves the destinations of
// other columns as they are. If scan returns an error then, it must return the object too, with the fields that make up the key, or the zero
// object if it does not know the key. After an error with a zero object, a list has the error in [informer.List.Missing], so that a cache
// deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer lists. That is so if the driver makes a time of a column of
// the key by its declared type, as it does not know the type in the log.
func NewTable[T any](ctx context.Context, db *sql.DB, scan func(Row) (T, error), cfg TableConfig) (*Table[T], error) {
	if db == nil || scan == nil {
		panic("sqlite: NewTable called with a nil pool or scan")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("sqlite: new table: %w", err)
	}
	t := &Table[T]{cfg: cfg, scan: scan}
	t.triggers = t.cfg.triggers
	if err := t.setUp(ctx, db); err != nil {
		return nil, failed(ctx, fmt.Sprintf("new table %q", cfg.Table), err)
	}
	return t, nil
}

func (t *Table[T]) setUp(ctx context.Context, db *sql.DB) (err error) {
	if t.file, err = fileOf(ctx, db); err != nil {
		return err
	}
	c, err := t.file.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.read(ctx, func() error {
		f, err := t.cfg.find(ctx, c)
		if err != nil {
			return err
		}
		fixed := t.cfg
		fixed.Table, fixed.Key, fixed.Columns = f.table, f.key, f.columns
		if err := t.installed(f); err != nil {
			return err
		}
		wal, err := c.isWAL(ctx)
		if err != nil {
			return err
		}
		fixed.Poll = cmp.Or(fixed.Poll, map[bool]time.Duration{true: 20 * time.Millisecond, false: time.Second}[wal])
		t.queries = newTableQueries(fixed)
		t.triggers = fixed.triggers
		t.cfg = fixed
		return nil
	})
}

// isWAL reports whether readers and writers do not disturb each other.
func (c *tableConn) isWAL(ctx context.Context) (bool, error) {
	var mode string
	err := c.QueryRowContext(ctx, "PRAGMA main.journal_mode").Scan(&mode)
	return mode == "wal", err
}

// installed returns an error if InstallTable has to be called.
func (t *Table[T]) installed(f found) error {
	if !f.isInstalled(t.triggers(f)) {
		return fmt.Errorf("its triggers are missing, or not those of its present schema and of the log %q: call sqlite.InstallTable", t.cfg.Log)
	}
	return nil
}

// check returns an error if the schema has changed since the Table was made, so that it cannot list and watch.
func (t *Table[T]) check(ctx context.Context, c *tableConn) error {
	cfg := t.cfg
	f, err := cfg.find(ctx, c)
	if err != nil {
		return err
	}
	return t.installed(f)
}

// BookmarkPeriod implements [informer.Bookmarker].
func (t *Table[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

// List implements [informer.ListWatcher].
func (t *Table[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(t.ListPages(ctx))
}

// ListPages implements [informer.Pager].
func (t *Table[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		if err := t.list(ctx, func(l informer.List[T]) bool { return yield(l, nil) }); err != nil {
			yield(informer.List[T]{}, failed(ctx, fmt.Sprintf("list table %q", t.cfg.Table), err))
		}
	}
}

func (t *Table[T]) list(ctx context.Context, yield func(informer.List[T]) bool) (err error) {
	c, err := t.file.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	var early []informer.List[T] // read before the first one is yielded
	var late error               // after a page was yielded: too late to begin again
	err = c.read(ctx, func() error {
		early = nil
		if err := t.check(ctx, c); err != nil {
			return err
		}
		s, err := t.state(ctx, c, 0)
		if err != nil {
			return err
		}
		wal, err := c.isWAL(ctx)
		if err != nil {
			return err
		}
		rows, err := c.QueryContext(ctx, t.queries.list)
		if err != nil {
			return err
		}
		next := t.pages(rows, s.last())
		if wal {
			late = errors.Join(follow.Ahead(ctx, next, yield), rows.Close())
			return nil
		}
		for more := true; err == nil && more; {
			var l informer.List[T]
			if l, more, err = next(ctx); err == nil {
				early = append(early, l)
			}
		}
		return errors.Join(err, rows.Close())
	})
	if err = errors.Join(err, late); err != nil {
		return err
	}
	for _, l := range early {
		if !yield(l) {
			return nil
		}
	}
	return nil
}

// pages returns a function that reads the next page of a list.
func (t *Table[T]) pages(rows *sql.Rows, v informer.Version) func(context.Context) (informer.List[T], bool, error) {
	row := &rowscan.Part{Rows: rows, N: len(t.cfg.Columns)}
	key := &rowscan.Part{Rows: rows, N: len(t.cfg.Columns), Key: map[int]int{}}
	for _, name := range t.cfg.Key {
		i := slices.Index(t.cfg.Columns, name)
		key.Key[i] = i
	}
	return func(context.Context) (informer.List[T], bool, error) {
		page := informer.List[T]{Version: v}
		for rows.Next() {
			rowscan.AddTo(&page, t.scan, Row(row), Row(key))
			if len(page.Items)+len(page.Unread) == pageSize {
				return page, true, nil
			}
		}
		return page, false, rows.Err()
	}
}

// LatestVersion implements [informer.Versioner]. It returns the version of the last change of all tables with the same log.
func (t *Table[T]) LatestVersion(ctx context.Context) (v informer.Version, err error) {
	c, err := t.file.open(ctx)
	if err == nil {
		err = c.read(ctx, func() error {
			s, err := t.state(ctx, c, 0)
			v = s.last()
			return err
		})
		err = errors.Join(err, c.close())
	}
	if err != nil {
		return 0, failed(ctx, fmt.Sprintf("read the latest version of table %q", t.cfg.Table), err)
	}
	return v, nil
}

// clockKind is the kind of the clock of all tables with one log.
const clockKind = "sqlite table"

// logID identifies a log.
type logID struct{ path, log string }

// Clock identifies the counter of the versions of t. A controller compares clocks to know which of its caches show a write.
func (t *Table[T]) Clock() reconcile.Clock {
	return reconcile.Clock{Kind: clockKind, DB: logID{t.file.path, t.cfg.Log}}
}

// VersionOf returns the version that the changes of tx get when it commits, in every [Table] with the same log. Call it after the last write
// of tx: until then, the version may be too low. The main database of the connection of tx must be the file of t. The watches of t look
// for that version every few milliseconds, for up to a second.
//
// Call it in each transaction of a reconcile that writes a table that the controller watches. Under the context of the reconcile, VersionOf
// tells the controller the version. The controller then does not reconcile the key again until its caches have seen tx, or until 10 s have
// passed since the reconcile has ended: see controller.Config.StaleReads. If tx is rolled back, the next transaction may get its version.
func (t *Table[T]) VersionOf(ctx context.Context, tx *sql.Tx) (informer.Version, error) {
	var n int64
	var r sql.NullInt64
	if err := tx.QueryRowContext(ctx, t.queries.versionOf).Scan(&n, &r); err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	v := versionOf(n, r)
	t.expected.Expect(v)
	reconcile.ReportWrite(ctx, clockKind, logID{t.file.path, t.cfg.Log}, uint64(v))
	return v, nil
}

// Wake makes the watches of t look for changes now. Call it after a commit of your process, if [TableConfig.Poll] is too long to wait.
func (t *Table[T]) Wake() { t.expected.Signal.Wake() }

// Watch implements [informer.ListWatcher].
func (t *Table[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		if err := t.watch(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) }); err != nil {
			yield(informer.Event[T]{}, failed(ctx, fmt.Sprintf("watch table %q", t.cfg.Table), err))
		}
	}
}

func (t *Table[T]) watch(ctx context.Context, after informer.Version, yield func(informer.Event[T]) bool) (err error) {
	c, err := t.file.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r := &tableReading[T]{table: t, conn: c, trimAt: time.Now()}
	watch := follow.Loop[informer.Event[T]]{
		Poll:      t.cfg.Poll,
		Signal:    &t.expected.Signal,
		Read:      r.next,
		Rest:      r.rest,
		Changed:   r.changed,
		VersionOf: func(e informer.Event[T]) informer.Version { return e.Version },
		// A version without a change of this table is a bookmark too: everything up to it has been reported.
		Bookmark: func(v informer.Version) informer.Event[T] {
			return informer.Event[T]{Type: informer.Bookmark, Version: v}
		},
	}
	return watch.Run(ctx, after, yield)
}
