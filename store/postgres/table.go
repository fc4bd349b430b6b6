package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Table is a source made of a table of your own, for informer.New. It is an [informer.ListWatcher], an [informer.Pager] and an
// [informer.Bookmarker]. All methods are safe for concurrent use.
//
// The version of a change is derived from the number of its transaction. A watch reports a transaction once every transaction with a lower
// number has ended. So it misses none, however they overlap, and your writers do not wait for each other. The price: a transaction that has
// written, or locked a row, and stays open, in any database of the server, delays the reports of all watches until it ends. [Table.Delay]
// names it. The triggers do not see some changes: see [InstallTable].
//
// Of the transactions that write the table at the same time, one notifies the watches when it commits, because commits with notifications
// wait for each other. If another transaction commits later than the notifying one, or if an older one ends later, changes are reported after
// at most the same delay plus 5 ms. If the notifying transaction rolls back or is still open, the limit is [TableConfig.Poll].
//
// Versions of all tables with one log ([TableConfig.Schema]) can be compared. [Table.VersionOf] returns the version of your own
// transaction.
//
// A list, and each event, has the rows as they were at its version, whatever has been committed since. There is one exception. If two
// transactions write the same row in a different order than that of their numbers, a list or a watch has the state after both as soon as it
// has the one with the lower number. A watch may then report the addition of a row that exists, or the deletion of one that does not, and
// need not report both. The last event of a row is always right. If one transaction writes a row several times, several of its events may
// have the row as the transaction left it.
//
// After a TRUNCATE, or if its version is no longer in the history, a watch ends with [informer.ErrExpired]: the informer lists again, and
// finds deletions by comparison. So do all watches once after the server has crashed or a standby was promoted, because both reuse
// transaction numbers. Versions go on increasing.
type Table[T any] struct {
	pool     *pgxpool.Pool
	cfg      TableConfig
	scan     func(pgx.CollectableRow) (T, error)
	log      logID
	patience time.Duration // how long a read of a watch may take
	listener listener
	queries  tableQueries
}

// tableQueries are the queries of a table.
type tableQueries struct {
	moment, list, undo, trim  string
	pages                     [past + 1]string // that of few is empty if the key is not indexed, because the server may need prepareSQL then
	epoch, versionOf, prepare string
}

// newTableQueries returns the queries of a table. If the key is indexed, a watch looks each row up. The planner would otherwise read the
// whole table for each page, because it does not know how much of it is in memory.
func newTableQueries(cfg TableConfig, key keyInfo) tableQueries {
	on := func(of string, value func(i int, name string) string) string {
		var same []string
		for i, column := range cfg.Key {
			name := pgx.Identifier{column}.Sanitize()
			same = append(same, of+"."+name+" = "+value(i, name))
		}
		return strings.Join(same, " AND ")
	}
	ofRecord := func(_ int, name string) string { return "k." + name }
	ofEntry := func(i int, _ string) string { return "(e.key->>" + quote(cfg.Key[i]) + ")" + key.casts[i] }
	row := "LATERAL (SELECT t.xmin AS {writer}, t.* FROM {table} t WHERE {on t} LIMIT 1) r ON true"
	if !key.indexed {
		row = "(SELECT t.xmin AS {writer}, t.* FROM {table} t) r ON {on r}"
	}
	value := ofEntry
	if key.casts == nil {
		value = ofRecord
		row = "LATERAL jsonb_populate_record(NULL::{table}, e.key) k ON true LEFT JOIN " + row
	}
	const writer, next, nextBefore, superseded = `"setpoint writer"`, `"setpoint next"`, `"setpoint before"`, `"setpoint superseded"`
	columnsOfR, columnsOfX := cfg.columns("r"), cfg.columns("x")
	if len(cfg.Columns) > 0 { // r.* and x.* have them
		columnsOfR = "r." + writer + ", " + columnsOfR
		columnsOfX = "x." + next + ", x." + nextBefore + ", x." + superseded + ", " + columnsOfX
	}
	epoch := pgx.Identifier{cfg.Schema, "epoch"}.Sanitize()
	with := strings.NewReplacer(
		"{on t}", on("t", value), "{on r}", on("r", value), "{changes}", pgx.Identifier{cfg.Schema, "changes"}.Sanitize(), "{trimmed}", pgx.Identifier{cfg.Schema, "trimmed"}.Sanitize(),
		"{table}", cfg.source(), "{source}", quote(cfg.source()), "{on}", on("t", ofRecord), "{writer}", writer, "{next}", next,
		"{next before}", nextBefore, "{superseded}", superseded, "{writer and columns of r}", columnsOfR, "{flags and columns of x}", columnsOfX,
		"{columns of t}", cfg.columns("t"), "{columns of d}", cfg.columns("d"),
		"{epoch}", epoch, "{setting}", "'setpoint.epoch_' || "+quote(epoch)+"::regclass::oid::text",
	).Replace
	pageOf := func(d depth) string {
		ofX, from := "", ""
		if d == past {
			ofX, from = ", {flags and columns of x}", pastSQL
		}
		base := baseSQL
		if d == few {
			base = knownBaseSQL
		}
		return with(strings.NewReplacer("{base}", base, "{row}", row, "{past}", ofX, "{size}", strconv.Itoa(d.size())).Replace(pageSQL) + from)
	}
	q := tableQueries{
		moment:    with(strings.Replace("SELECT "+momentColumns+" FROM "+momentSQL, "{base}", baseSQL, 1)),
		prepare:   with(prepareSQL),
		epoch:     with(`SELECT {epoch}()`),
		versionOf: with(`SELECT pg_current_xact_id()::text, {epoch}()`),
		// The rows that need not be undone.
		list: with(undoneSQL + `SELECT {columns of t} FROM {table} t WHERE NOT EXISTS (SELECT FROM undone c,
			LATERAL jsonb_populate_record(NULL::{table}, c.key) k WHERE {on})`),
		// The other rows, as they were before.
		undo: with(undoneSQL + `SELECT {columns of d} FROM (SELECT DISTINCT ON (key) before FROM undone ORDER BY key, id) c,
			LATERAL jsonb_populate_record(NULL::{table}, c.before) d WHERE c.before IS NOT NULL`),
		pages: [...]string{page: pageOf(page), past: pageOf(past)},
		trim: with(`WITH old AS (
				DELETE FROM {changes} WHERE source = {source} AND xid < pg_snapshot_xmin(pg_current_snapshot())
				AND xid < (SELECT xid FROM {changes} WHERE source = {source} ORDER BY xid DESC OFFSET $1 LIMIT 1) RETURNING xid)
			UPDATE {trimmed} t SET xid = greatest(t.xid, (SELECT xid FROM old ORDER BY xid DESC LIMIT 1))
			WHERE t.source = {source} AND EXISTS (SELECT FROM old)`),
	}
	if key.indexed {
		q.pages[few] = pageOf(few)
	}
	return q
}

// NewTable returns the source of a table for which [InstallTable] was called. scan reads a row that has the Columns of cfg, or all columns
// of the table, for example pgx.RowToStructByName. Several goroutines call scan concurrently. NewTable returns an error if a field of cfg
// is invalid, or if InstallTable has to be called first or again: if a trigger is missing or disabled, or if the log was made by an older
// version of the library or by another server.
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
	err := cfg.findKey(ctx, pool)
	if err == nil {
		err = cfg.checkInstalled(ctx, pool)
	}
	var key keyInfo
	if err == nil {
		key, err = cfg.keyInfo(ctx, pool)
	}
	var log logID
	if err == nil {
		log, err = cfg.logID(ctx, pool)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: new table %s: %w", cfg.source(), err)
	}
	t := &Table[T]{pool: pool, cfg: cfg, scan: scan, log: log, patience: patience, queries: newTableQueries(cfg, key)}
	t.listener = listener{pool: cmp.Or(cfg.Listen, pool), channel: cfg.channel(), retry: cfg.Poll, patience: patience}
	return t, nil
}

// moment is the state of transactions in a snapshot.
type moment struct {
	base    int64  // of the versions, see logSQL
	horizon uint64 // the first transaction that was open, or the next one if none was
	open    bool   // a transaction was open
	trimmed uint64 // the last one whose changes may be trimmed
}

// versionOf returns the version after all changes of a transaction. It is odd. The even one below it is in the middle of the
// transaction: all of its events but the last have it, and a watch that resumes from there begins with the transaction.
func (m moment) versionOf(xid uint64) informer.Version {
	return informer.Version(uint64(m.base) + 2*xid + 1)
}

// last returns the version up to which the snapshot is complete.
func (m moment) last() informer.Version { return m.versionOf(m.horizon - 1) }

// doneAt returns the last transaction all of whose changes are included in a version. The version must not be of an earlier epoch.
func (m moment) doneAt(v informer.Version) (xid uint64) {
	if uint64(v) == uint64(m.base) {
		return 0
	}
	return (uint64(v) - uint64(m.base) - 1) / 2
}

func parseXID(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
func formatXID(xid uint64) string          { return strconv.FormatUint(xid, 10) }

// BookmarkPeriod implements [informer.Bookmarker].
func (t *Table[T]) BookmarkPeriod() time.Duration { return backend.BookmarkInterval }

// List implements [informer.ListWatcher].
func (t *Table[T]) List(ctx context.Context) (informer.List[T], error) {
	return informer.Collect(t.ListPages(ctx))
}

// ListPages implements [informer.Pager].
func (t *Table[T]) ListPages(ctx context.Context) iter.Seq2[informer.List[T], error] {
	return func(yield func(informer.List[T], error) bool) {
		if err := t.pages(ctx, func(l informer.List[T]) bool { return yield(l, nil) }); err != nil {
			yield(informer.List[T]{}, failed(ctx, "list "+t.cfg.source(), err))
		}
	}
}

// snapshot calls f in a transaction that only reads, from one snapshot.
func (t *Table[T]) snapshot(ctx context.Context, f func(tx pgx.Tx, m moment) error) error {
	tx, err := t.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer endRead(ctx, tx, t.patience) // after the one below, it does nothing
	var r momentRow
	switch err := tx.QueryRow(ctx, t.queries.moment).Scan(r.columns()...); {
	case errors.Is(err, pgx.ErrNoRows):
		return errNotInstalled
	case err != nil:
		return err
	}
	m, err := r.moment()
	if errors.Is(err, errNoEpoch) {
		endRead(ctx, tx, t.patience)
		if _, err := t.pool.Exec(ctx, t.queries.epoch); err != nil {
			return err
		}
		return t.snapshot(ctx, f)
	}
	if err != nil {
		return err
	}
	return f(tx, m)
}

// now returns the moment of a new snapshot.
func (t *Table[T]) now(ctx context.Context) (m moment, err error) {
	err = inTime(ctx, t.pool, t.patience, func(ctx context.Context) error {
		return t.snapshot(ctx, func(_ pgx.Tx, now moment) error {
			m = now
			return nil
		})
	})
	return m, err
}

// pages calls yield with page after page, all from one snapshot, until it returns false. It undoes the writes of transactions
// above the horizon, because watches still have to report them.
func (t *Table[T]) pages(ctx context.Context, yield func(informer.List[T]) bool) error {
	return t.snapshot(ctx, func(tx pgx.Tx, m moment) error {
		page := informer.List[T]{Version: m.last()}
		left := false
		for _, query := range []string{t.queries.list, t.queries.undo} {
			rows, err := tx.Query(ctx, query, formatXID(max(m.horizon, m.trimmed+1))) // a watch reports nothing up to m.trimmed
			if err != nil {
				return err
			}
			for rows.Next() {
				obj, err := t.scan(rows)
				if err != nil {
					rows.Close()
					return err
				}
				if page.Items = append(page.Items, obj); len(page.Items) == pageSize {
					if left = !yield(page); left {
						rows.Close()
						return nil
					}
					page.Items = nil
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
		}
		yield(page)
		return nil
	})
}

// Watch implements [informer.ListWatcher].
func (t *Table[T]) Watch(ctx context.Context, after informer.Version) iter.Seq2[informer.Event[T], error] {
	return func(yield func(informer.Event[T], error) bool) {
		trimAt := time.Now()
		watch := follow.Loop[informer.Event[T]]{
			Poll:   t.cfg.Poll,
			Signal: &t.listener.notified,
			Read:   (&reading[T]{table: t}).next,
			Rest: func(ctx context.Context) error {
				if time.Now().Before(trimAt) {
					return nil
				}
				trimAt = time.Now().Add(trimPeriod)
				_, err := t.pool.Exec(ctx, t.queries.trim, t.cfg.History)
				return err
			},
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

// trimPeriod is how often a watch trims the log.
const trimPeriod = time.Minute

// reading reads what the transactions after a version have changed, up to the first one that may still be open, in pages. The pages of
// a transaction may be of several snapshots.
type reading[T any] struct {
	table *Table[T]
	begin *moment // of the first page, or of the last read before it; nil before the first read
	depth depth   // of the next read

	// The following are those of the last page, if there may be more.
	last *place             // of the entries that were read
	held *informer.Event[T] // the last event of a transaction has another version than the others, so one event is held back
}

// next returns the next page after a version.
func (r *reading[T]) next(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	if r.begin == nil {
		m, err := r.table.now(ctx)
		if err != nil {
			return p, err
		}
		r.begin = &m
	}
	b, err := r.table.read(ctx, start{at, r.last, *r.begin}, r.depth)
	if err != nil {
		return p, err
	}
	if r.last == nil {
		r.begin = &b.moment
	}
	p.Events = b.events
	if r.held != nil {
		p.Events = slices.Insert(p.Events, 0, *r.held)
	}
	r.last, r.depth, r.held = b.last, b.next, nil
	for i := 1; i < len(p.Events); i++ {
		if before := &p.Events[i-1]; before.Version < p.Events[i].Version { // it was the last one of its transaction
			before.Version++
		}
	}
	end := len(p.Events) - 1
	switch {
	case r.last != nil && end >= 0:
		held := p.Events[end]
		r.held, p.Events = &held, p.Events[:end]
		fallthrough
	case r.last != nil:
		p.UpTo, p.Then = at, follow.Again
		return p, nil
	case end >= 0:
		p.Events[end].Version = b.moment.last()
	}
	p.UpTo = b.moment.last()
	if b.moment.open {
		p.Then = follow.Settle
	}
	return p, nil
}

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
