package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
	"github.com/setpoint-go/setpoint/wait"
)

// Table is a source made of a table of your own, for informer.New. It is an [informer.ListWatcher], an [informer.Pager], an
// [informer.Bookmarker], and an [informer.Versioner]. All methods are safe for concurrent use.
//
// The binary log of the server says which keys were written. Rows come from the table, as they are when they are read. So:
//
//  1. A cache at a version shows every change up to that version. It may also show later changes, which a watch then reports once more.
//  2. A row never goes back to an older state, and the last event of a row has its present state. Between them, states may be missing. The
//     events do not say which rows are new, and an event of a row that does not exist has only its key: see [informer.Event.KeyOnly]. An event
//     may also report a row that has not changed, or the deletion of a row that a cache never had.
//  3. The pages of a list are of one snapshot. So are the events of a page of a watch, which has about 2,000 changes.
//  4. A watch misses no change that is in the binary log as rows, and reports none that was rolled back. It reports changes in the order of their
//     commits. The server writes a transaction into the log before others can see it: a watch waits until they can. So a list that begins
//     after an event shows its change.
//  5. A change that is not in the log as rows ends the watch with [informer.ErrExpired], so that the informer lists: TRUNCATE, ALTER TABLE, and other
//     statements that name the table, and each INSERT, UPDATE, or DELETE, of whatever table, that a session has logged as a statement. So does
//     the commit of an XA transaction that was prepared for longer than a second before the watch began.
//  6. The actions of foreign keys are not in the log. The log shows that they may have happened: then, and every [TableConfig.Verify], a watch
//     compares all rows with what it has reported. A difference is logged as a warning, and ends the watch with [informer.ErrExpired]. That also
//     finds the changes of sessions with sql_log_bin=0.
//  7. Two keys are the same if they have the same bytes. If the collation of the key ignores case, or accents, or spaces at the end, an update
//     of acme to ACME is a deletion and an addition.
//  8. If the server has removed the changes after a version, a watch ends with [informer.ErrExpired]. If the version is of another server, as
//     after a failover, or of a binary log that was reset, it ends with [informer.ErrNewHistory]. It compares a number of 12 bits, made of
//     the server_id and the second in which the file of the log was begun, and whether an event begins at the position.
//  9. A list, or a watch when it begins and every five seconds, checks the settings of the server, the key, and the columns. If it cannot go on,
//     it fails, and the error says what to do.
//
// The key of an informer must depend on nothing but the columns of [TableConfig.Key].
//
// # Connections and privileges
//
// Each open watch has a connection to the binary log, and a connection of its own out of the pool, which it closes at its end. A list, or a
// comparison, takes one of the pool for a while. So let [sql.DB.SetMaxOpenConns] leave room for two connections for each informer. A list also
// connects to the binary log, for a moment. A watch receives the changes of all tables of the server, and decodes those of its own. A list holds a
// snapshot until its loop ends, and an ALTER TABLE waits for it.
//
// The user of the pool needs SELECT on the table, and CREATE TEMPORARY TABLES on the database: a watch reads rows by joining the table with a
// temporary table of keys. The user of [TableConfig.DSN] needs REPLICATION SLAVE and BINLOG MONITOR. Both may be one.
//
// The server needs log_bin, and binlog_format=ROW. If [TableConfig.Key] is not the primary key, binlog_row_image must be FULL. Each connection
// to the binary log has a random server_id of at least 2^31.
//
// A Table reads the primary. It refuses a server that is read-only, and one that is not MariaDB. It was tested on MariaDB 10.11.
type Table[T any] struct {
	db       *sql.DB
	cfg      TableConfig
	server   *driver.Config // of the DSN
	id       serverID
	database string
	scan     func(mysql.Row) (T, error)
	primary  bool // the key is the primary key, because the user has named no other
	reader   *usertable.Reader[T]
	memory   usertable.Memory
	expected follow.Expected // versions that somebody waits for

	// Tests replace the following.
	patience     time.Duration // see usertable.Patience
	period       time.Duration // of checks
	newReplicaID func() uint32
	broken       broken
}

// broken is the mistakes of a Table under test.
type broken struct {
	early      bool // it does not wait until a change is visible
	statements bool // it ignores statements
	oldKeys    bool // it ignores the keys that updates have replaced
	anyMark    bool // it does not look at the marks of files
}

// NewTable returns the source of a table. db is a pool of the driver github.com/go-sql-driver/mysql, whose default database has the table. scan
// reads a row that has the Columns of cfg. Several goroutines call scan concurrently. NewTable returns an error if a field of cfg is invalid, or
// if the server, its settings, or the privileges do not allow to follow the table.
//
// If scan returns an error for a row, or panics, the object is unread: see [informer.Informer.Unread]. It affects no other row, if scan returns its
// key.
//
// For such a row, and for one that was deleted, scan is called with a row that has only the columns of the key: Scan leaves the destinations of
// other columns as they are. If scan returns an error then, it must return the object too, with the fields that make up the key, or the zero
// object if it does not know the key. After an error with a zero object, a list has the error in [informer.List.Missing], so that a cache
// deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer lists.
func NewTable[T any](ctx context.Context, db *sql.DB, scan func(mysql.Row) (T, error), cfg TableConfig) (*Table[T], error) {
	if db == nil || scan == nil {
		panic("binlog: NewTable called with a nil pool or scan")
	}
	cfg = cfg.withDefaults()
	server, err := cfg.validate()
	if err != nil {
		return nil, fmt.Errorf("binlog: new table: %w", err)
	}
	t := &Table[T]{db: db, cfg: cfg, server: server, scan: scan, patience: usertable.Patience, period: backend.BookmarkInterval, newReplicaID: newReplicaID}
	if err := t.setUp(ctx); err != nil {
		return nil, failed(ctx, fmt.Sprintf("new table %q", cfg.Table), err)
	}
	return t, nil
}

func (t *Table[T]) setUp(ctx context.Context) (err error) {
	s, err := usertable.Open(ctx, t.db, t.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	t.primary = len(t.cfg.Key) == 0
	schema, err := t.check(ctx, s)
	if err != nil {
		return err
	}
	t.cfg.Key, t.cfg.Columns, t.database = usertable.Names(schema.Key), usertable.Names(schema.Columns), schema.Database
	t.reader = usertable.NewReader(func(row usertable.Row) (T, error) { return t.scan(row) }, schema)
	if err := s.QueryRowContext(ctx, "SELECT @@hostname, @@port").Scan(&t.id.host, &t.id.port); err != nil {
		return err
	}
	if err := createKeys(ctx, s, schema); err != nil { // or a watch finds out what it must not
		return err
	}
	at, base, err := visible(ctx, s)
	if err != nil {
		return err
	}
	_, err = t.markOf(ctx, schema, base, at)
	return err
}

// markOf returns the mark of the file of a position.
func (t *Table[T]) markOf(ctx context.Context, s usertable.Schema, base string, at position) (uint64, error) {
	d, err := t.dump(ctx, s, base, at)
	if err != nil {
		return 0, err
	}
	d.close()
	return d.mark, nil
}

// check returns the present schema. It returns an error if the table cannot be followed, or if the key is another one than that of the Table.
func (t *Table[T]) check(ctx context.Context, s usertable.Session) (usertable.Schema, error) {
	ctx, cancel := context.WithTimeout(ctx, t.patience)
	defer cancel()
	var version, format, image string
	var log, inOrder bool
	if err := s.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return usertable.Schema{}, err
	}
	if !strings.Contains(version, "MariaDB") {
		return usertable.Schema{}, fmt.Errorf("the server is not MariaDB, but %s: package mysql, which is beside this one, follows a table by triggers", version)
	}
	err := s.QueryRowContext(ctx, "SELECT @@log_bin, @@GLOBAL.binlog_format, @@GLOBAL.binlog_row_image, @@GLOBAL.binlog_optimize_thread_scheduling").
		Scan(&log, &format, &image, &inOrder)
	switch {
	case err != nil:
		return usertable.Schema{}, err
	case !log:
		return usertable.Schema{}, errors.New("log_bin is off: the server must be started with it")
	case format != "ROW":
		return usertable.Schema{}, fmt.Errorf("binlog_format is %s, must be ROW", format)
	case !t.primary && image != "FULL":
		return usertable.Schema{}, fmt.Errorf("binlog_row_image is %s, must be FULL, because TableConfig.Key is not the primary key", image)
	case !inOrder: // the position of a snapshot is ahead of what it shows
		return usertable.Schema{}, errors.New("binlog_optimize_thread_scheduling is off, must be on")
	}
	named := t.cfg.named()
	if t.primary {
		named.Key = nil
	}
	schema, err := usertable.Find(ctx, s, named)
	switch {
	case err != nil:
	case t.reader != nil && !slices.Equal(usertable.Names(schema.Key), t.cfg.Key):
		err = fmt.Errorf("its primary key has changed from (%s) to (%s): restart the program",
			strings.Join(t.cfg.Key, ", "), strings.Join(usertable.Names(schema.Key), ", "))
	case schema.Kind == "SYSTEM VERSIONED":
		err = errors.New("it is system-versioned, which package binlog does not read")
	default:
		err = checkKey(schema)
	}
	return schema, err
}

// findLinks reads what foreign keys do with rows of the table.
func findLinks(ctx context.Context, from rowscan.Queryer, s usertable.Schema) (l links, err error) {
	parents, err := rowscan.All(ctx, from, func(rows *sql.Rows, parent *string) error { return rows.Scan(parent) },
		`SELECT REFERENCED_TABLE_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ?
			AND (DELETE_RULE IN ('CASCADE', 'SET NULL') OR UPDATE_RULE IN ('CASCADE', 'SET NULL'))`, s.Database, s.Table)
	for _, parent := range parents {
		l.any = true
		l.self = l.self || s.Is(parent, s.Table)
	}
	return l, err
}

// failed words the error of a call. If ctx has ended, the error wraps its cause.
func failed(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("binlog: %s: %w", doing, err)
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
	schema, err := t.check(ctx, s)
	if err != nil {
		return err
	}
	// The watch after the list begins here. If a transaction is prepared, its keys are in the log before: so the list waits for its end.
	from, base, err := visible(ctx, s)
	if err != nil {
		return err
	}
	mark, err := t.markOf(ctx, schema, base, from)
	if err != nil {
		return err
	}
	alone, err := t.awaitPrepared(ctx, s)
	if err != nil {
		return err
	}
	report := usertable.Report{At: versionOf(from, mark), Columns: schema.All, Rows: usertable.Hashes{}}
	if alone {
		to, _, err := visible(ctx, s)
		if err != nil {
			return err
		}
		report.Shown = versionOf(to, 1<<markBits-1)
	}
	return s.Snapshot(ctx, func() error {
		rows, err := s.QueryContext(ctx, listSQL(schema))
		if err != nil {
			return err
		}
		return t.reader.List(ctx, rows, report, &t.memory, yield)
	})
}

// listSQL returns the query of all rows.
func listSQL(s usertable.Schema) string {
	text := "SELECT " + strings.Join(usertable.Quoted("t", s.Columns), ", ") + " FROM " + usertable.Quote(s.Database) + "." + usertable.Quote(s.Table) + " t"
	if condition := s.NotNull("t"); condition != "" {
		text += " WHERE " + condition
	}
	return text
}

// preparedPatience is how long a list waits for the end of prepared transactions.
const preparedPatience = time.Second

// awaitPrepared waits until all transactions that are prepared now have ended. It returns false if that takes too long.
func (t *Table[T]) awaitPrepared(ctx context.Context, s usertable.Session) (bool, error) {
	before, err := prepared(ctx, s)
	begun := time.Now()
	for now := before; err == nil && len(before) > 0; {
		if time.Since(begun) > preparedPatience {
			return false, nil
		}
		if err := wait.Sleep(ctx, time.Millisecond); err != nil {
			return false, err
		}
		now, err = prepared(ctx, s)
		before = slices.DeleteFunc(before, func(xid string) bool { return !slices.Contains(now, xid) })
	}
	return true, err
}

// prepared returns the XIDs of the transactions that are prepared, as the binary log writes them. One is among them until its commit is visible.
func prepared(ctx context.Context, s usertable.Session) ([]string, error) {
	return rowscan.All(ctx, s, func(rows *sql.Rows, xid *string) error {
		var format int64
		var global, branch int
		var data []byte
		if err := rows.Scan(&format, &global, &branch, &data); err != nil {
			return err
		}
		if global+branch > len(data) {
			return fmt.Errorf("XA RECOVER returns %d bytes, must be %d", len(data), global+branch)
		}
		*xid = fmt.Sprintf("X'%x',X'%x',%d", data[:global], data[global:global+branch], format)
		return nil
	}, "XA RECOVER")
}

// Watch implements [informer.ListWatcher].
func (t *Table[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		if err := t.watch(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) }); err != nil {
			yield(informer.Event[T]{}, failed(ctx, fmt.Sprintf("watch table %q", t.cfg.Table), err))
		}
	}
}

// poll is how often a watch looks how far the binary log is, if it has no change of the table.
const poll = 20 * time.Millisecond

func (t *Table[T]) watch(ctx context.Context, after informer.Version, yield func(informer.Event[T]) bool) (err error) {
	s, err := usertable.Open(ctx, t.db, t.patience)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r := &reading[T]{table: t, session: s, verifyAt: time.Now().Add(t.cfg.Verify), Report: t.memory.Take(after)}
	r.At = after
	defer r.end()
	if err := r.begin(ctx); err != nil {
		return err
	}
	watch := follow.Loop[informer.Event[T]]{
		Poll:      poll,
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
	err = watch.Run(ctx, after, yield)
	if errors.Is(err, errStatement) { // an informer does not tell why it lists again
		t.cfg.Logger.WarnContext(ctx, "the binary log has a statement instead of rows, so a watch lists again", "table", t.cfg.Table, "error", err)
	}
	return err
}
