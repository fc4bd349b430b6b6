package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Table is a source made of a table of your own, for informer.New. It is an [informer.ListWatcher], an [informer.Pager], an
// [informer.Bookmarker], an [informer.Versioner], an [informer.Delayer], an [informer.RangeWatcher], and with [TableConfig].SlotBy an
// [informer.RangeLister]. All
// methods are safe for concurrent use.
//
// A log has the keys that were written, and the numbers of the transactions that wrote them: see [InstallTable]. Rows come from the table, as
// they are when they are read. So:
//
//  1. A cache at a version shows every change of the transactions up to that version. It may also show later changes, which a watch then
//     reports once more.
//  2. A row never goes back to an older state, and the last event of a row has its present state. Between them, states may be missing. The
//     events do not say which rows are new, and an event of a row that is gone has only its key: see [informer.Event.KeyOnly].
//  3. The pages of a list are of one snapshot. So are the events of a page of a watch, which has up to 2,000 keys.
//  4. A watch reports a transaction once every transaction with a lower number has ended. So it misses none, however they overlap.
//  5. A reader sees rows by its own rights. If a row leaves its row-level policy by a write, the event is a deletion for this reader. The log
//     has no more than keys.
//  6. A list, or a watch when it begins and every few seconds, checks that the triggers and the key are those that were installed. If they are
//     not, it fails, and the error says what to do. If the columns that it reads, the labels of an enum, or the policies of the table were
//     changed, the watch ends with [informer.ErrExpired].
//
// The key of an informer must depend on nothing but the columns of [TableConfig.Key].
//
// Your writers do not wait for each other. The price: a transaction that has written, or locked a row, and stays open, in any database of the
// server, delays the reports of all watches until it ends. [Table.Delay] names it. The triggers do not see some changes: see [InstallTable].
//
// Of the transactions that write the table at the same time, one notifies the watches when it commits, because commits with notifications
// wait for each other. If another transaction commits later than the notifying one, or if an older one ends later, changes are reported after
// at most the same delay plus 5 ms. If the notifying transaction rolls back or is still open, or if a subscription applies the changes, the
// limit is [TableConfig.Poll].
//
// Versions of all tables with one [TableConfig.Schema] can be compared. [Table.VersionOf] returns the version of your own transaction.
//
// After a TRUNCATE, or if its version is no longer in the history, a watch ends with [informer.ErrExpired]: the informer lists again, and
// finds deletions by comparison. So do all watches once after the server has crashed or a standby was promoted, because both reuse
// transaction numbers. Versions go on increasing.
type Table[T any] struct {
	pool     *pgxpool.Pool
	cfg      TableConfig
	primary  bool // the key is the primary key, because the user has named no other
	scan     func(pgx.CollectableRow) (T, error)
	log      logID
	patience time.Duration // how long a read of a watch may take
	listener listener
	delays   follow.Delays
	queries  tableQueries

	serializable atomic.Bool // the default of the sessions, in which a read could make a transaction of a writer fail
	mayNotTrim   sync.Once   // logs that
}

// NewTable returns the source of a table for which [InstallTable] was called. scan reads a row that has the Columns of cfg, or all columns
// of the table, for example pgx.RowToStructByName. Several goroutines call scan concurrently. NewTable returns an error if a field of cfg
// is invalid, or if InstallTable has to be called first or again.
//
// If scan returns an error for a row, or panics, the object is unread: see [informer.Informer.Unread]. It affects no other row, if scan returns its
// key.
//
// For such a row, and for one that was deleted, scan is called with a row that has only the columns of the key: Scan leaves the destinations of
// other columns as they are, and Values has nil for them. If scan returns an error then, it must return the object too, with the fields that
// make up the key, or the zero object if it does not know the key. After an error with a zero object, a list has the error in
// [informer.List.Missing], so that a cache deletes nothing, and a watch ends with [informer.ErrExpired], so that the informer lists.
func NewTable[T any](
	ctx context.Context, pool *pgxpool.Pool, scan func(pgx.CollectableRow) (T, error), cfg TableConfig,
) (*Table[T], error) {
	if pool == nil || scan == nil {
		panic("postgres: NewTable called with a nil pool or scan")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("postgres: new table: %w", err)
	}
	t := &Table[T]{pool: pool, cfg: cfg, primary: len(cfg.Key) == 0, scan: scan, patience: patience}
	t.listener = listener{pool: cmp.Or(cfg.Listen, pool), channel: cfg.channel(), retry: cfg.Poll, patience: patience}
	found, err := cfg.find(ctx, pool)
	if err == nil {
		t.cfg.Key = found.key
		err = t.cfg.check(found, found.key)
	}
	if err == nil {
		err = t.cfg.checkEncoding(ctx, pool)
	}
	if err == nil {
		t.queries = newTableQueries(t.cfg, found.operators)
		t.log, err = cfg.logID(ctx, pool)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: new table %s: %w", cfg.source(), err)
	}
	return t, nil
}

// BookmarkPeriod implements [informer.Bookmarker].
func (t *Table[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

// List implements [informer.ListWatcher].
func (t *Table[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(t.ListPages(ctx))
}

// ListPages implements [informer.Pager].
func (t *Table[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return t.list(ctx, t.queries.list)
}

// list returns the pages of the rows of a query.
func (t *Table[T]) list(ctx context.Context, query string, args ...any) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		err := t.snapshot(ctx, func(tx pgx.Tx, s state) error {
			rows, err := tx.Query(ctx, query, slices.Concat([]any{freshPlan(tx)}, args)...)
			if err != nil {
				return err
			}
			return t.pages(rows, s.last(), func(l informer.List[T]) bool { return yield(l, nil) })
		})
		if err != nil {
			yield(informer.List[T]{}, failed(ctx, "list "+t.cfg.source(), err))
		}
	}
}

// ListRanges implements [informer.RangeLister]. It returns nil without [TableConfig].SlotBy.
func (t *Table[T]) ListRanges(ctx context.Context, ranges []informer.HashRange) iter.Seq2[informer.List[T], error] {
	if t.cfg.SlotBy == "" {
		return nil
	}
	from, to := make([]int64, len(ranges)), make([]int64, len(ranges))
	for i, r := range ranges {
		from[i], to[i] = int64(r.From), int64(r.To)
	}
	return t.list(ctx, t.queries.ranges, from, to)
}

// LatestVersion implements [informer.Versioner]. It returns the version of the last committed transaction that has changed the table. If an
// older transaction is still open, in any database of the server, watches reach that version after its end. If the pool of t leads to a
// replica, the version is as old as the replica.
func (t *Table[T]) LatestVersion(ctx context.Context) (v informer.Version, err error) {
	err = inTime(ctx, t.pool, t.patience, func(ctx context.Context) error {
		return t.snapshot(ctx, func(tx pgx.Tx, s state) error {
			var xid uint64
			if err := tx.QueryRow(ctx, t.queries.latest).Scan(&xid); errors.Is(err, pgx.ErrNoRows) {
				v = s.last() // nothing was ever written
			} else if err != nil {
				return err
			} else {
				v = s.versionOf(xid)
			}
			return nil
		})
	})
	if err != nil {
		return 0, failed(ctx, "read the latest version of "+t.cfg.source(), err)
	}
	return v, nil
}

// state is the state of the table and of the transactions in a snapshot.
type state struct {
	moment
	changed uint64 // see found
}

// snapshot calls f in a transaction that only reads, from one snapshot in which the table and its log are as they should be.
func (t *Table[T]) snapshot(ctx context.Context, f func(tx pgx.Tx, s state) error) error {
	tx, err := t.pool.BeginTx(ctx, listing())
	if err != nil {
		return err
	}
	defer endRead(ctx, tx, t.patience) // after the one below, it does nothing
	cfg := t.cfg
	if t.primary {
		cfg.Key = nil
	}
	found, err := cfg.find(ctx, tx)
	if err == nil {
		err = t.cfg.check(found, t.cfg.Key)
	}
	if err != nil {
		return err
	}
	s := state{changed: found.changed}
	var base *int64
	var serializable bool
	if err := tx.QueryRow(ctx, t.queries.moment).Scan(&s.horizon, &s.open, &base, &serializable); err != nil {
		return err
	}
	t.serializable.Store(serializable)
	if base == nil { // the server may have lost transactions
		endRead(ctx, tx, t.patience)
		begin := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite} // also in a session that only reads by default
		err := pgx.BeginTxFunc(ctx, t.pool, begin, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, t.queries.epoch)
			return err
		})
		if err != nil {
			return err
		}
		return t.snapshot(ctx, f)
	}
	s.base = *base
	return f(tx, s)
}

// freshPlan returns the mode of a query of rows. The session may have prepared the statement when the table had other columns.
func freshPlan(tx pgx.Tx) pgx.QueryExecMode {
	mode := tx.Conn().Config().DefaultQueryExecMode
	if mode == pgx.QueryExecModeCacheStatement {
		mode = pgx.QueryExecModeDescribeExec
	}
	return mode
}

// pages calls yield with page after page of rows, until it returns false.
func (t *Table[T]) pages(rows pgx.Rows, v informer.Version, yield func(informer.List[T]) bool) error {
	defer rows.Close()
	page := informer.List[T]{Version: v}
	row, key := &part{Rows: rows}, &part{Rows: rows, key: make(map[int]int)}
	for column, field := range rows.FieldDescriptions() {
		if slices.Contains(t.cfg.Key, field.Name) {
			key.key[column] = column
		}
	}
	for rows.Next() {
		rowscan.AddTo(&page, t.scan, pgx.CollectableRow(row), pgx.CollectableRow(key))
		if len(page.Items) == pageSize {
			if !yield(page) {
				return nil
			}
			page = informer.List[T]{Version: v}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	yield(page)
	return nil
}

// Watch implements [informer.ListWatcher].
func (t *Table[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return t.watch(ctx, after, 0)
}

// The pace of [Table.WatchRanges] for each other replica, and its maximum.
const (
	paceEach = 4 * time.Millisecond
	maxPace  = 100 * time.Millisecond
)

// WatchRanges implements [informer.RangeWatcher], also without [TableConfig].SlotBy. It reports all changes, but most of them do not concern
// an informer that holds a part of the rows. So while changes follow each other within a pace, it reads once in each pace, and needs no
// notifications. The pace is 4 ms for each other replica, if all hold as much as this one, and at most 100 ms. So all replicas together
// read a stream of changes about 250 times a second, and a change in a stream may be reported a pace later. A change after a pause is read
// at once.
func (t *Table[T]) WatchRanges(ctx context.Context, after informer.Version, ranges []informer.HashRange) iter.Seq2[informer.Event[T], error] {
	held := 0.0
	for _, r := range ranges {
		held += float64(r.To-r.From) / (1 << 32)
	}
	others := 1/max(held, 0.001) - 1
	return t.watch(ctx, after, min(time.Duration(others*float64(paceEach)), maxPace))
}

// watch returns a watch with a pace.
func (t *Table[T]) watch(ctx context.Context, after informer.Version, pace time.Duration) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		r := &reading[T]{table: t, trimAt: time.Now(), delay: t.delays.Join()}
		defer r.delay.Leave()
		watch := follow.Loop[informer.Event[T]]{
			Poll:      t.cfg.Poll,
			Signal:    &t.listener.notified,
			Read:      r.next,
			Rest:      r.rest,
			Pace:      pace,
			Deaf:      t.listener.deaf,
			VersionOf: func(e informer.Event[T]) informer.Version { return e.Version },
			// A version without a change of this table is a bookmark too: everything up to it has been reported.
			Bookmark: func(v informer.Version) informer.Event[T] {
				return informer.Event[T]{Type: informer.Bookmark, Version: v}
			},
		}
		leave := t.listener.join()
		defer leave()
		if err := watch.Run(ctx, after, func(e informer.Event[T]) bool { return yield(e, nil) }); err != nil {
			yield(informer.Event[T]{}, failed(ctx, "watch "+t.cfg.source(), err))
		}
	}
}

// How often a watch does what it does now and then.
const (
	checkPeriod = backend.BookmarkInterval
	trimPeriod  = time.Minute
)

// reading is the state of a watch. The pages of a transaction may be of several snapshots.
type reading[T any] struct {
	table   *Table[T]
	base    int64  // of the versions; it does not change during a watch
	checked uint64 // the first transaction that the last check may not have seen; 0 before the first check
	last    *place // of the last page, if there may be more
	size    int    // of the next page
	delay   *follow.Delay

	checkAt, trimAt time.Time // the next time
}

// next returns the next page after a version.
func (r *reading[T]) next(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	if r.checked == 0 {
		if err := r.check(ctx, at); err != nil {
			return p, err
		}
	}
	from := after(moment{base: r.base}.doneAt(at))
	if r.last != nil {
		from = *r.last
	}
	b, err := r.table.read(ctx, at, from, r.base, r.size)
	for retries := r.table.pool.Stat().MaxConns(); err != nil; retries-- {
		if e := new(pgconn.PgError); !errors.As(err, &e) {
			return p, err
		}
		if changed := r.check(ctx, at); changed != nil {
			return p, changed
		}
		if retries == 0 || !isCode(err, otherColumns) {
			return p, err
		}
		b, err = r.table.read(ctx, at, from, r.base, r.size)
	}
	r.delay.Note(b.moment.horizon, b.moment.open)
	p.Events, p.UpTo = b.events, b.moment.last()
	r.last, r.size = b.last, fewSize
	switch {
	case b.last != nil:
		p.UpTo, p.Then, r.size = at, follow.Again, tableBatch
	case b.moment.open:
		p.Then = follow.Settle
	}
	return p, nil
}

// check checks in a new snapshot that the log says what has changed since the last check or, the first time, since the version at which the
// watch begins.
func (r *reading[T]) check(ctx context.Context, begin informer.Version) error {
	return inTime(ctx, r.table.pool, r.table.patience, func(ctx context.Context) error {
		return r.table.snapshot(ctx, func(_ pgx.Tx, s state) error {
			if r.checked == 0 {
				if uint64(begin) < uint64(s.base) {
					return fmt.Errorf("%w: the server may have lost version %d in a crash or a failover", informer.ErrExpired, begin)
				}
				r.base, r.size, r.checked = s.base, fewSize, s.doneAt(begin)+1
			}
			if s.changed >= r.checked {
				return fmt.Errorf("%w: the columns, their enums, or the policies of the table have changed", informer.ErrExpired)
			}
			r.checked, r.checkAt = s.horizon, time.Now().Add(checkPeriod)
			return nil
		})
	})
}

// rest does what a watch does now and then.
func (r *reading[T]) rest(ctx context.Context) error {
	now := time.Now()
	if now.After(r.checkAt) {
		if err := r.check(ctx, 0); err != nil {
			return err
		}
	}
	if now.After(r.trimAt) {
		r.trimAt = now.Add(trimPeriod)
		return r.table.trim(ctx)
	}
	return nil
}

// The codes of the errors of a session that must not write: on a standby, or by default, and without the privilege.
const (
	readOnly = "25006"
	noRight  = "42501"
)

// otherColumns is the code of the error of a session that has prepared a statement when the table had other columns. It prepares it again.
const otherColumns = "0A000"

// isCode reports whether the server has refused a statement with one of some codes.
func isCode(err error, codes ...string) bool {
	e := new(pgconn.PgError)
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// trim removes the changes that the history has no room for. A role that must not leaves that to others.
func (t *Table[T]) trim(ctx context.Context) error {
	err := pgx.BeginTxFunc(ctx, t.pool, writing(), func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, t.queries.trim, t.cfg.History)
		return err
	})
	if isCode(err, readOnly, noRight) {
		t.mayNotTrim.Do(func() {
			t.cfg.Logger.WarnContext(ctx, "cannot trim the log of a table, and leaves that to others", "table", t.cfg.source(), "error", err)
		})
		return nil
	}
	return err
}

// DelayedSince implements [informer.Delayer]. It returns when an open watch first saw the oldest transaction that has written, anywhere on the
// server, and is still open. It does not ask the server. [Table.Delay] names the transaction.
func (t *Table[T]) DelayedSince() time.Time { return t.delays.Since() }

// Delay names the transaction that keeps the watches of a [Table] from reporting: the oldest one on the server that has written and is
// still open.
type Delay struct {
	Behind      uint64    // transactions that have begun since, which watches cannot report yet; 0 means no delay
	PID         int32     // of the server process, for pg_terminate_backend; 0 for a prepared transaction
	Application string    // the application_name, or the name of a prepared transaction
	State       string    // as in pg_stat_activity, such as "idle in transaction"; "prepared" for a prepared transaction
	Since       time.Time // when the transaction began, by the clock of the server
}

// Delay returns the transaction that delays the watches. Without the privileges of pg_read_all_stats it may lack details of the sessions of
// other users.
func (t *Table[T]) Delay(ctx context.Context) (d Delay, err error) {
	err = t.pool.QueryRow(ctx, `
		SELECT (pg_snapshot_xmax(s)::text::numeric - pg_snapshot_xmin(s)::text::numeric)::text::bigint,
			coalesce(a.pid, 0), coalesce(a.name, ''), coalesce(a.state, ''), coalesce(a.since, 'epoch')
		FROM pg_current_snapshot() s LEFT JOIN LATERAL (
			SELECT pid, application_name AS name, state, xact_start AS since, backend_xid AS xid FROM pg_stat_activity
			UNION ALL SELECT 0, gid, 'prepared', prepared, transaction FROM pg_prepared_xacts
		) a ON a.xid = pg_snapshot_xmin(s)::xid`).Scan(&d.Behind, &d.PID, &d.Application, &d.State, &d.Since)
	if err != nil {
		return Delay{}, failed(ctx, "read what delays "+t.cfg.source(), err)
	}
	return d, nil
}
