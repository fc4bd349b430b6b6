package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
	"github.com/setpoint-go/setpoint/wait"
)

// Table is a source made of a table of your own, for informer.New. It is an [informer.ListWatcher], an [informer.Pager], an
// [informer.Bookmarker], an [informer.Versioner], and an [informer.Delayer]. All methods are safe for concurrent use.
//
// A log has the keys that were written: see [InstallTable]. The triggers write it in the transactions of the writers. Rows come from the table,
// as they are when they are read. So:
//
//  1. A cache at a version shows every change up to that version. It may also show later changes, which a watch then reports once more.
//  2. A row never goes back to an older state, and the last event of a row has its present state. Between them, states may be missing. The
//     events do not say which rows are new, and an event of a row that does not exist has only its key: see [informer.Event.KeyOnly]. An event
//     may also report a row that has not changed, or the deletion of a row that a cache never had.
//  3. The pages of a list are of one snapshot. So are the events of a page of a watch, which has up to 2,000 changes.
//  4. A watch misses no change that the triggers see, however transactions overlap, and reports none that was rolled back. It reports a change
//     once every transaction that has drawn a lower number of the same log has ended: see the delays below.
//  5. What the triggers do not see is found by a comparison, every [TableConfig.Verify], logged as a warning, and corrected by a list of all
//     watches. [InstallTable] names these changes.
//  6. Two keys are the same if they have the same bytes. If the collation of the key ignores case, or accents, or spaces at the end, an update
//     of acme to ACME is a deletion and an addition.
//  7. A list, or a watch when it begins and every five seconds, checks that the triggers, the log, and the key are those that were installed.
//     If they are not, it fails, and the error says what to do. If the columns that it reads have other definitions, a watch ends with
//     [informer.ErrExpired].
//  8. A watch notices that the server has lost the change at its version, in a restore, or in a failover to a replica that lagged, and ends
//     with [informer.ErrNewHistory]: the informer lists again, and accepts an older version. It compares a random number, of 20 bits, in the
//     log and in the version.
//
// The key of an informer must depend on nothing but the columns of [TableConfig.Key].
//
// # Delays
//
// Writers never wait for each other, or for a reader, because of the log. The price: a transaction that has written the table, and stays open,
// delays the reports of what others have written to the same table since. It does not delay other tables. [Table.Delay] names it. If a
// transaction that has written the table is rolled back, later changes are reported about 0.2 s later, because a reader must be sure that
// nobody uses the numbers that it has left.
//
// The server draws a number and inserts the row of the log within one statement, in microseconds. If its thread is suspended in between for
// longer than 0.2 s, or waits for a lock that another program holds on the end of the log, a watch may pass the number. Then it finds the
// change within a minute, and all watches list again. That is the one case in which a cache may be at the version of [Table.VersionOf] and
// not show the transaction.
//
// # Connections and privileges
//
// Each open watch, and each list that is in progress, has a connection of its own out of the pool, and closes it at its end. A comparison takes
// another one for a while. So let [sql.DB.SetMaxOpenConns] leave room for two connections for each informer. A list holds a snapshot until its
// loop ends, and an ALTER TABLE waits for it.
//
// The user of the pool needs SELECT on the table and on both tables of the log, INSERT, UPDATE, and DELETE on both tables of the log, and
// TRIGGER on the table, without which the server does not tell it the triggers. A user who must not write the log can list and watch as long as
// a Table of another user follows it, which then settles gaps, and trims.
//
// A Table reads the primary. It refuses a server that is read-only. It was tested on MariaDB 10.11. That it works on MySQL 8.0 and newer follows
// from its manual.
type Table[T any] struct {
	db      *sql.DB
	cfg     TableConfig
	id      logID
	scan    func(Row) (T, error)
	primary bool // the key is the primary key, because the user has named no other
	reader  *usertable.Reader[T]
	queries queries
	memory  usertable.Memory

	// Tests replace the following.
	grace, patience time.Duration // see gaps, and usertable.Patience
	trust           bool          // does not check the triggers

	expected follow.Expected // the results of VersionOf
	delays   follow.Delays
	mustRead sync.Once // logs that it must not write
}

// Row is a row that a scan function reads.
type Row interface {
	// Scan copies the columns into dest, in the order of TableConfig.Columns, as that of [sql.Rows] does. It ignores a column whose
	// destination is nil.
	Scan(dest ...any) error
}

// NewTable returns the source of a table for which [InstallTable] was called. db is a pool of the driver github.com/go-sql-driver/mysql, whose
// default database has the table. scan reads a row that has the Columns of cfg. Several goroutines call scan concurrently. NewTable returns an
// error if a field of cfg is invalid, or if InstallTable has to be called first or again.
//
// If scan returns an error for a row, or panics, the object is unread: see [informer.Informer.Unread]. It affects no other row, if scan returns its
// key.
//
// For such a row, and for one that was deleted, scan is called with a row that has only the columns of the key: Scan leaves the destinations of
// other columns as they are. If scan returns an error then, it must return the object too, with the fields that make up the key, or the zero
// object if it does not know the key. After an error with a zero object, a list has the error in [informer.List.Missing], so that a cache
// deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer lists.
func NewTable[T any](ctx context.Context, db *sql.DB, scan func(Row) (T, error), cfg TableConfig) (*Table[T], error) {
	if db == nil || scan == nil {
		panic("mysql: NewTable called with a nil pool or scan")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("mysql: new table: %w", err)
	}
	t := &Table[T]{db: db, cfg: cfg, scan: scan, grace: graceTime, patience: usertable.Patience}
	if err := t.setUp(ctx); err != nil {
		return nil, failed(ctx, fmt.Sprintf("new table %q", cfg.Table), err)
	}
	return t, nil
}

func (t *Table[T]) setUp(ctx context.Context) error {
	f, err := t.cfg.find(ctx, t.db)
	if err != nil {
		return err
	}
	if err := t.installed(f); err != nil {
		return err
	}
	t.primary = len(t.cfg.Key) == 0
	t.cfg.Key, t.cfg.Columns = usertable.Names(f.Key), usertable.Names(f.Columns)
	t.reader = usertable.NewReader(func(row usertable.Row) (T, error) { return t.scan(row) }, f.Schema)
	t.queries = newQueries(t.cfg, f)
	t.id.database, t.id.log = f.Database, t.cfg.Log
	return t.db.QueryRowContext(ctx, "SELECT @@hostname, @@port").Scan(&t.id.host, &t.id.port)
}

// installed returns an error if InstallTable has to be called.
func (t *Table[T]) installed(f found) error {
	switch {
	case !f.hasLog || !f.gaps:
		return fmt.Errorf("its log %q is missing: call mysql.InstallTable", t.cfg.Log)
	case !f.isLogged():
		return fmt.Errorf("its log %q has another key, or other types: call mysql.InstallTable", t.cfg.Log)
	case !t.trust && !f.isRecorded(t.cfg.triggers(f)):
		return fmt.Errorf("its triggers are missing, or not those of its present key and of the log %q: call mysql.InstallTable, "+
			"unless the user of the pool lacks the privilege TRIGGER on the table", t.cfg.Log)
	}
	return nil
}

// check returns the present definitions of the columns. It returns an error if the schema has changed since the Table was made, so that it
// cannot list and watch.
func (t *Table[T]) check(ctx context.Context, s usertable.Session) ([]usertable.Column, error) {
	cfg := t.cfg
	if t.primary {
		cfg.Key = nil
	}
	f, err := cfg.find(ctx, s)
	if err == nil && !slices.Equal(usertable.Names(f.Key), t.cfg.Key) {
		err = fmt.Errorf("its primary key has changed from (%s) to (%s): call mysql.InstallTable, and restart the program",
			strings.Join(t.cfg.Key, ", "), strings.Join(usertable.Names(f.Key), ", "))
	}
	if err == nil {
		err = t.installed(f)
	}
	return f.Columns, err
}

// expired returns an error that makes an informer list.
func expired(why string) error { return fmt.Errorf("%w: %s", informer.ErrExpired, why) }

// mayNotWrite logs that the user of the pool must not write the log.
func (t *Table[T]) mayNotWrite(ctx context.Context, err error) {
	t.mustRead.Do(func() {
		t.cfg.Logger.WarnContext(ctx, "cannot write the log of a table, and leaves that to others", "table", t.cfg.Table, "error", err)
	})
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
	s, err := usertable.Open(ctx, t.db, t.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	columns, err := func() ([]usertable.Column, error) {
		ctx, cancel := context.WithTimeout(ctx, t.patience)
		defer cancel()
		return t.check(ctx, s)
	}()
	if err != nil {
		return err
	}
	list := func() error { return t.listIn(ctx, s, columns, yield) }
	err = s.Snapshot(ctx, list)
	if errors.Is(err, errEmptyLog) { // somebody has emptied it
		if err = t.refill(ctx, s); err == nil {
			err = s.Snapshot(ctx, list)
		}
	}
	return err
}

// listIn lists in a snapshot.
func (t *Table[T]) listIn(ctx context.Context, s usertable.Session, columns []usertable.Column, yield func(informer.List[T]) bool) error {
	v, err := t.horizon(ctx, s)
	if err != nil {
		return err
	}
	report := usertable.Report{At: v, Columns: columns, Rows: usertable.Hashes{}, Marks: map[int64]bool{}}
	marks, err := rowscan.All(ctx, s, func(rows *sql.Rows, n *int64) error { return rows.Scan(n) }, t.queries.at(t.queries.marks, numberOf(v), 0))
	if err != nil {
		return err
	}
	for _, n := range marks {
		report.Marks[n] = true
	}
	rows, err := s.QueryContext(ctx, t.queries.list)
	if err != nil {
		return err
	}
	return t.reader.List(ctx, rows, report, &t.memory, yield)
}

// refill adds a first row to a log that somebody has emptied, and settles the numbers below.
func (t *Table[T]) refill(ctx context.Context, s usertable.Session) error {
	if err := s.Write(ctx, t.queries.mark); err != nil {
		return err
	}
	var first, last sql.NullInt64
	if err := s.QueryRowContext(ctx, t.queries.ends).Scan(&first, &last); err != nil {
		return err
	}
	r := &reading[T]{table: t, session: s}
	for {
		var err error
		if r.settled, err = readSpans(ctx, s, t.queries.spans, 0); err != nil {
			return err
		}
		n, missing := r.settled.missing(1, first.Int64-1)
		if !missing {
			return nil
		}
		if err := r.settle(ctx, n-1); err != nil {
			return err
		}
		if err := wait.Sleep(ctx, t.cfg.Poll); err != nil {
			return err
		}
	}
}

// horizon returns the version up to which a snapshot is complete: that of the last row of the log before the first gap that is not settled.
func (t *Table[T]) horizon(ctx context.Context, s usertable.Session) (informer.Version, error) {
	settled, err := readSpans(ctx, s, t.queries.base0, 0)
	if err != nil {
		return 0, err
	}
	base := int64(0)
	for _, in := range settled {
		if in.first == 0 {
			base = in.last
		}
	}
	gaps, err := readSpans(ctx, s, t.queries.gaps, base)
	if err != nil {
		return 0, err
	}
	last := int64(1<<63 - 1) // of the rows that count
	for _, g := range gaps {
		if n, ok := settled.missing(g.first, g.last); ok {
			last = n
			break
		}
	}
	var n, r int64
	err = s.QueryRowContext(ctx, t.queries.at(t.queries.lastUpTo, last, 0)).Scan(&n, &r)
	if errors.Is(err, sql.ErrNoRows) {
		err = errEmptyLog
	}
	return versionOf(n, r), err
}

// Watch implements [informer.ListWatcher].
func (t *Table[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		if err := t.watch(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) }); err != nil {
			yield(informer.Event[T]{}, failed(ctx, fmt.Sprintf("watch table %q", t.cfg.Table), err))
		}
	}
}

func (t *Table[T]) watch(ctx context.Context, after informer.Version, yield func(informer.Event[T]) bool) (err error) {
	s, err := usertable.Open(ctx, t.db, t.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := &reading[T]{
		table: t, session: s, delay: t.delays.Join(), trimAt: time.Now(), verifyAt: time.Now().Add(t.cfg.Verify), Report: t.memory.Take(after),
	}
	defer r.delay.Leave()
	r.At = after
	defer r.end()
	watch := follow.Loop[informer.Event[T]]{
		Poll:      t.cfg.Poll,
		Signal:    &t.expected.Signal,
		Read:      r.next,
		Rest:      r.rest,
		Changed:   r.changed,
		VersionOf: func(e informer.Event[T]) informer.Version { return e.Version },
		// A version without a change of a row is a bookmark too: everything up to it has been reported.
		Bookmark: func(v informer.Version) informer.Event[T] {
			return informer.Event[T]{Type: informer.Bookmark, Version: v}
		},
	}
	return watch.Run(ctx, after, yield)
}

// DelayedSince implements [informer.Delayer]. It returns when an open watch first saw that a change before those that are committed is missing,
// because its transaction is open or was rolled back. It does not ask the server. [Table.Delay] names the transaction.
func (t *Table[T]) DelayedSince() time.Time { return t.delays.Since() }

// Delay names what keeps the watches of a [Table] from reporting changes that are committed.
type Delay struct {
	Behind int64 // committed changes that watches cannot report yet; 0 means no delay

	// The following is about the oldest transaction of the server that has written and is still open, which is probably the cause. It is
	// zero if there is none, because it was rolled back less than a second ago, or if the user of the pool lacks the privilege PROCESS.
	Thread int64     // the number of its connection, for KILL; 0 also for a prepared transaction
	User   string    // whose connection it is
	Since  time.Time // when it began, by the clock of the server
}

// Delay returns what delays the watches.
func (t *Table[T]) Delay(ctx context.Context) (d Delay, err error) {
	s, err := usertable.Open(ctx, t.db, t.patience)
	if err == nil {
		d, err = t.delay(ctx, s)
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return Delay{}, failed(ctx, fmt.Sprintf("read what delays table %q", t.cfg.Table), err)
	}
	return d, nil
}

func (t *Table[T]) delay(ctx context.Context, s usertable.Session) (d Delay, err error) {
	err = s.Snapshot(ctx, func() error {
		v, err := t.horizon(ctx, s)
		if err != nil {
			return err
		}
		return s.QueryRowContext(ctx, t.queries.at(t.queries.behind, numberOf(v), 0)).Scan(&d.Behind)
	})
	if err != nil || d.Behind == 0 {
		return d, err
	}
	var since float64
	err = s.QueryRowContext(ctx, `SELECT t.trx_mysql_thread_id, COALESCE(p.USER, ''), UNIX_TIMESTAMP(t.trx_started)
		FROM information_schema.INNODB_TRX t LEFT JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
		WHERE t.trx_rows_modified > 0 ORDER BY t.trx_started LIMIT 1`).Scan(&d.Thread, &d.User, &since)
	if errors.Is(err, sql.ErrNoRows) || usertable.MustNot(err) { // it must not read that either
		return d, nil
	}
	d.Since = time.UnixMilli(int64(since * 1000))
	return d, err
}
