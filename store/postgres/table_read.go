package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/setpoint-go/setpoint/informer"
)

// momentSQL is a row with the state of transactions in a snapshot: the first transaction that was open, or the next one if none was; the last
// one whose changes may be trimmed; and whether any was open. Because of OFFSET 0, the server computes it once, and not for each entry.
const momentSQL = `(SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon, xid AS trimmed,
	age(pg_snapshot_xmin(pg_current_snapshot())::xid) <> 0 AS open FROM {trimmed} WHERE source = {source} OFFSET 0) m`

// momentColumns has the columns of momentSQL, and the base of the epoch. {base} is baseSQL or knownBaseSQL.
const momentColumns = `m.horizon, m.trimmed, m.open, {base}`

// knownBaseSQL is the base of the epoch, or null if the session does not know it yet. A session reads it once by baseSQL, and keeps it in a
// setting whose name has the object id of the table epoch. An epoch ends when the server crashes or is promoted. A crash ends all sessions.
// Before it is promoted, a session cannot read the base, because epoch is an unlogged table.
const knownBaseSQL = `nullif(current_setting({setting}, true), '')::bigint`

const baseSQL = `(SELECT coalesce(` + knownBaseSQL + `, (SELECT set_config({setting}, base::text, false)::bigint
	FROM {epoch} WHERE system = (SELECT system_identifier FROM pg_control_system()))))`

// momentRow has the momentColumns.
type momentRow struct {
	horizon, trimmed uint64
	open             bool
	base             *int64
}

// columns returns where to scan the momentColumns.
func (r *momentRow) columns() []any { return []any{&r.horizon, &r.trimmed, &r.open, &r.base} }

// errNotInstalled means that momentSQL has no row.
var errNotInstalled = errors.New("the log does not know the table: call postgres.InstallTable")

// errNoEpoch means that the server may have lost transactions, so the function epoch has to be called.
var errNoEpoch = errors.New("the log has no epoch")

func (r momentRow) moment() (moment, error) {
	if r.base == nil {
		return moment{}, errNoEpoch
	}
	return moment{base: *r.base, horizon: r.horizon, open: r.open, trimmed: r.trimmed}, nil
}

// prepareSQL runs before pageSQL, in the same transaction. It turns off jit, because compiling pageSQL would take longer than running it, and
// makes the planner use the indexes of the log. Left alone, the server may read and sort the whole log for each page, with a plan from when
// the log was short.
const prepareSQL = `SELECT set_config('jit', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	CASE WHEN current_setting('server_version_num')::integer >= 140000 THEN set_config('enable_memoize', 'off', true) END`

// depth says what a read looks at.
type depth int

const (
	few  depth = iota // the first entries, without prepareSQL, which takes less time
	page              // more entries
	past              // as many, and what happened to their rows since, which takes the server a fifth longer
)

// size returns how many entries a read looks at.
func (d depth) size() int {
	if d == few {
		return fewSize
	}
	return tableBatch
}

// pageSQL reads the next entries of the log after a transaction and an id. It is one statement, so it has one snapshot. The limit is a
// constant, because for a parameter the planner assumes a tenth of the log. The transaction is in a subquery, because the planner would find
// for a parameter that few entries follow, and make a plan of its own for each page. For each entry e, it reads r, the current row, with the
// transaction that wrote it. If that is the transaction of e, nothing has written the row since that transaction, and r is the row after e.
//
// The rows have no ORDER BY, because a sort would send nothing before the last row is found. They are in order anyway as long as the server
// looks up r for one entry after another. If they are not, the reader sorts them.
const pageSQL = `
SELECT ` + momentColumns + `, e.xid, e.id, e.op::text, {writer and columns of r}{past}
FROM ` + momentSQL + `
LEFT JOIN LATERAL (
	SELECT xid, id, op, key, before FROM {changes}
	WHERE source = {source} AND (xid, id) > ((SELECT $1::text::xid8), $2) AND xid < m.horizon
	ORDER BY xid, id LIMIT {size}
) e ON true
LEFT JOIN {row}`

// pastSQL extends pageSQL by x, which says what happened to the row after e. It is computed for a deletion, because a later entry of the
// same transaction may have inserted the row again, and if another transaction wrote r. A savepoint has a number of its own, so x is also
// computed for rows written after one. In x are:
//
//   - n, the next entry of the key. If there is none, r is the row after e.
//   - superseded, whether a transaction with a lower number has written the row later. That transaction was open at the time of e, so it is
//     not below oldest. So the search ends at the next entry whose oldest is above the transaction of e. That is mostly n.
//   - d, the row as e or n found it.
//
// OFFSET 0 keeps the planner from computing x for each entry.
const pastSQL = `
LEFT JOIN LATERAL (
	SELECT n.id IS NOT NULL AS {next}, n.before IS NOT NULL AS {next before},
		CASE WHEN n.id IS NULL OR n.oldest > e.xid THEN false ELSE EXISTS (
			SELECT FROM {changes} o WHERE o.source = {source} AND o.key = e.key AND o.id > e.id AND o.xid < e.xid AND o.id < coalesce((
				SELECT q.id FROM {changes} q WHERE q.source = {source} AND q.key = e.key AND q.id > e.id AND q.oldest > e.xid ORDER BY q.id LIMIT 1
			), 9223372036854775807)
		) END AS {superseded}, d.*
	FROM (SELECT WHERE e.op = 'D' OR r.{writer} IS DISTINCT FROM e.xid::xid OFFSET 0) needed
	LEFT JOIN LATERAL (
		SELECT id, before, oldest FROM {changes} WHERE source = {source} AND key = e.key AND id > e.id ORDER BY id LIMIT 1
	) n ON true
	LEFT JOIN LATERAL jsonb_populate_record(NULL::{table}, CASE WHEN e.op = 'D' THEN e.before ELSE n.before END) d ON true
) x ON true`

// undoneSQL begins a list. The entries in undone are those of transactions above the horizon that watches still have to report. An entry
// does not count if a transaction below the horizon has written the row later, because watches do not report a superseded entry. Such a
// transaction was open when the first entry above the horizon was made, so it is not below the oldest of that entry.
const undoneSQL = `
WITH begin AS MATERIALIZED (
	SELECT id, coalesce(oldest, '0') AS oldest FROM {changes} WHERE source = {source} AND xid >= $1::text::xid8 ORDER BY id LIMIT 1
), later AS MATERIALIZED (
	SELECT c.key, max(c.id) AS id FROM begin b JOIN {changes} c ON c.xid >= b.oldest AND c.id > b.id
	WHERE c.source = {source} AND c.xid < $1::text::xid8 GROUP BY c.key
), undone AS (
	SELECT c.key, c.id, c.before FROM {changes} c LEFT JOIN later l ON l.key = c.key
	WHERE c.source = {source} AND c.xid >= $1::text::xid8 AND c.key IS NOT NULL AND (l.id IS NULL OR c.id > l.id)
)
`

// entry is a row of pageSQL, without the columns of the moment, and of r and d.
type entry struct {
	xid    pgtype.Uint64 // null in the one row of a page without entries
	id     pgtype.Int8
	op     pgtype.Text
	writer pgtype.Uint32 // the lower half of the number of a transaction; null if the row is not there

	// The following are null if x was not computed.
	hasNext    pgtype.Bool // a later entry has the same key
	nextBefore pgtype.Bool // that entry found a row
	superseded pgtype.Bool // a transaction with a lower number has written the row later
}

// isLast reports whether the row has not been written after the transaction of e, so that nothing else has to be known about it.
func (e *entry) isLast() bool {
	return e.op.String != opDelete && e.writer.Valid && e.writer.Uint32 == uint32(e.xid.Uint64)
}

// The columns of pageSQL besides those of the table.
const (
	entryColumns = 8 // before the columns of r
	flagColumns  = 3 // of x, before the columns of d
)

// place is the place of an entry in the log.
type place struct {
	xid uint64
	id  int64
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.xid, q.xid), cmp.Compare(p.id, q.id))
}

// batch is what a read returns from one snapshot.
type batch[T any] struct {
	events []informer.Event[T]
	last   *place // of the last entry if there may be more; nil if there are none
	next   depth  // of the next read
	moment moment

	places []place // of the events
}

// Len, Less, and Swap sort the events by their places.
func (b *batch[T]) Len() int           { return len(b.events) }
func (b *batch[T]) Less(i, j int) bool { return b.places[i].compare(b.places[j]) < 0 }
func (b *batch[T]) Swap(i, j int) {
	b.events[i], b.events[j] = b.events[j], b.events[i]
	b.places[i], b.places[j] = b.places[j], b.places[i]
}

// start is where a read begins: after a version or, if after is not nil, after a place. The moment begin is that of an earlier read of the
// watch.
type start struct {
	at    informer.Version
	after *place
	begin moment
}

// place returns the place after which a read begins.
func (s start) place() place {
	if s.after != nil {
		return *s.after
	}
	return place{s.begin.doneAt(s.at), math.MaxInt64}
}

// read reads the next entries of the log, and the row after each of them. If it does not look at the past, it reads only up to the first
// entry that is not the last of its row. If that is the first one, it reads again.
func (t *Table[T]) read(ctx context.Context, from start, d depth) (b batch[T], err error) {
	err = inTime(ctx, t.pool, t.patience, func(ctx context.Context) error {
		b, err = t.readNow(ctx, from, d)
		if errors.Is(err, errNoEpoch) && d == few { // for the first time in this session
			d = page
			b, err = t.readNow(ctx, from, d)
		}
		if errors.Is(err, errNoEpoch) {
			if _, err = t.pool.Exec(ctx, t.queries.epoch); err == nil {
				b, err = t.readNow(ctx, from, d)
			}
		}
		if err == nil && d != past && b.next == past && len(b.events) == 0 {
			b, err = t.readNow(ctx, from, past)
		}
		return err
	})
	return b, err
}

// readNow is read without a time limit. It takes one round trip.
func (t *Table[T]) readNow(ctx context.Context, from start, d depth) (b batch[T], err error) {
	if t.queries.pages[d] == "" {
		d = page
	}
	after := from.place()
	args := []any{formatXID(after.xid), after.id}
	if d == few {
		rows, err := t.pool.Query(ctx, t.queries.pages[few], args...)
		if err != nil {
			return b, err
		}
		defer rows.Close()
		err = t.collect(&b, rows, from, few)
		return b, err
	}
	queries := new(pgx.Batch)
	queries.Queue(t.queries.prepare)
	queries.Queue(t.queries.pages[d], args...)
	results := t.pool.SendBatch(ctx, queries)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if _, err := results.Exec(); err != nil {
		return b, err
	}
	rows, err := results.Query()
	if err != nil {
		return b, err
	}
	defer rows.Close()
	err = t.collect(&b, rows, from, d)
	return b, err
}

// collect fills b with the rows of pageSQL, or of pageSQL and pastSQL.
func (t *Table[T]) collect(b *batch[T], rows pgx.Rows, from start, d depth) error {
	all := len(rows.FieldDescriptions())
	columns := make([]any, all) // nil leaves a column out
	var m momentRow
	var e entry
	copy(columns, append(m.columns(), &e.xid, &e.id, &e.op, &e.writer))
	now, before := &window{CollectableRow: rows, from: entryColumns, to: all}, (*window)(nil)
	if d == past {
		now.to = (entryColumns + all - flagColumns) / 2
		before = &window{CollectableRow: rows, from: now.to + flagColumns, to: all}
		copy(columns[now.to:], []any{&e.hasNext, &e.nextBefore, &e.superseded})
	}
	var last, cut place // cut is the first entry that is left to the next read
	n, sorted := 0, true
	for rows.Next() {
		err := rows.Scan(columns...)
		if err != nil {
			return err
		}
		if n == 0 {
			if b.moment, err = m.moment(); err != nil {
				return err
			}
			if err := checkPlace(b.moment, from); err != nil {
				return err
			}
			clear(columns[:4]) // they are the same in each row
		}
		if !e.xid.Valid {
			break
		}
		n++
		here := place{e.xid.Uint64, e.id.Int64}
		if !e.isLast() {
			b.next = past
			if d != past && (cut == (place{}) || here.compare(cut) < 0) {
				cut = here
			}
		}
		if cut != (place{}) && here.compare(cut) >= 0 {
			continue // so that no row is decoded twice
		}
		if here.compare(last) > 0 {
			last = here
		} else {
			sorted = false
		}
		if b.events, err = t.appendEvents(b.events, &e, b.moment.versionOf(here.xid)-1, now, before); err != nil {
			return err
		}
		for len(b.places) < len(b.events) {
			b.places = append(b.places, here)
		}
	}
	if !sorted {
		sort.Stable(b)
	}
	if cut != (place{}) {
		end, _ := slices.BinarySearchFunc(b.places, cut, place.compare)
		if b.events = b.events[:end]; end > 0 {
			b.last = &b.places[end-1]
		}
	} else if n == d.size() {
		b.last = &last
		b.next = max(b.next, page)
	}
	if err := rows.Err(); err != nil || b.moment != (moment{}) {
		return err
	}
	return errNotInstalled
}

// checkPlace returns an error if the log cannot tell what follows the start of a read.
func checkPlace(m moment, from start) error {
	if uint64(from.at) < uint64(m.base) || m.base != from.begin.base {
		return fmt.Errorf("%w: the server may have lost version %d in a crash or a failover", informer.ErrExpired, from.at)
	}
	switch done := from.place().xid; {
	case done >= m.horizon:
		return fmt.Errorf("%w: the server is at version %d, not at %d", informer.ErrExpired, m.last(), m.versionOf(done))
	case done < m.trimmed:
		return fmt.Errorf("%w: the changes up to version %d are trimmed", informer.ErrExpired, m.versionOf(m.trimmed))
	}
	return nil
}

// appendEvents appends the events of an entry. now and before are the rows r and d of pageSQL.
func (t *Table[T]) appendEvents(
	events []informer.Event[T], e *entry, v informer.Version, now, before *window,
) ([]informer.Event[T], error) {
	if e.op.String == opTruncate {
		return nil, fmt.Errorf("%w: the table was truncated", informer.ErrExpired)
	}
	if e.superseded.Bool {
		return events, nil
	}
	add := func(kind informer.EventType, row *window) error {
		obj, err := t.scan(row)
		events = append(events, informer.Event[T]{Type: kind, Object: obj, Version: v})
		return err
	}
	kind := informer.Modified
	switch e.op.String {
	case opDelete:
		if err := add(informer.Deleted, before); err != nil {
			return nil, err
		}
		kind = informer.Added // if the row exists anyway, the entry of its insertion was reported and trimmed
	case opInsert:
		kind = informer.Added
	}
	switch {
	case !e.hasNext.Bool && e.writer.Valid:
		return events, add(kind, now)
	case e.nextBefore.Bool && e.op.String != opDelete:
		return events, add(kind, before)
	}
	return events, nil
}

// window is a range of the columns of another row.
type window struct {
	pgx.CollectableRow
	from, to int
	all      []any // for Scan, to allocate it once
}

func (w *window) FieldDescriptions() []pgconn.FieldDescription {
	return w.CollectableRow.FieldDescriptions()[w.from:w.to]
}

func (w *window) Scan(dest ...any) error {
	if len(dest) != w.to-w.from {
		return fmt.Errorf("the row has %d columns, %d are scanned", w.to-w.from, len(dest))
	}
	if w.all == nil {
		w.all = make([]any, len(w.CollectableRow.FieldDescriptions())) // nil leaves a column out
	}
	copy(w.all[w.from:], dest)
	return w.CollectableRow.Scan(w.all...)
}

func (w *window) RawValues() [][]byte { return w.CollectableRow.RawValues()[w.from:w.to] }

func (w *window) Values() ([]any, error) {
	values, err := w.CollectableRow.Values()
	if err != nil {
		return nil, err
	}
	return values[w.from:w.to], nil
}
