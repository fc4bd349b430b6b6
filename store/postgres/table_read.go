package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/setpoint-go/setpoint/informer"
)

// momentSQL reads the state of transactions in a snapshot, as one row.
const momentSQL = `(SELECT pg_snapshot_xmin(pg_current_snapshot()) AS horizon,
	coalesce((SELECT xid FROM {trimmed} WHERE source = {source}), '0') AS trimmed,
	(SELECT e.base FROM {epoch} e, pg_control_system() c WHERE e.system = c.system_identifier) AS base LIMIT 1)`

// momentRow is a row of momentSQL.
type momentRow struct {
	horizon, trimmed string
	base             *int64
}

// errNoEpoch means that the server may have lost transactions, so the function epoch has to be called.
var errNoEpoch = errors.New("the log has no epoch")

func (r momentRow) parse() (m moment, err error) {
	if r.base == nil {
		return m, errNoEpoch
	}
	m.base = *r.base
	if m.horizon, err = parseXID(r.horizon); err != nil {
		return m, err
	}
	m.trimmed, err = parseXID(r.trimmed)
	return m, err
}

// prepareSQL runs before pageSQL, in the same transaction. It reports whether an open transaction has written the table. A transaction that
// has ended by now is in the snapshot of pageSQL. One that writes later announces itself, or finds another one that announces and notifies
// after the read has begun.
// prepareSQL also turns off jit, because compiling pageSQL would take longer than running it, and makes the planner use the indexes of the
// log. Left alone, the server may read and sort the whole log for each page, with a plan from when the log was short.
const prepareSQL = `SELECT set_config('jit', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	CASE WHEN pg_try_advisory_lock({writing}) THEN NOT pg_advisory_unlock({writing}) ELSE true END`

// pageSQL reads the next entries of the log after a version and an id. It is one statement, so it has one snapshot. The limit is a
// constant, because for a parameter the planner assumes a tenth of the log. For each entry e, it reads:
//
//   - r, the current row, with the transaction that wrote it.
//   - n, the next entry of the key. If the transaction of e wrote r, nothing has written the row since that transaction, and r is the row
//     after e. Then n is not searched, unless e is a deletion. A savepoint has a number of its own, so n is searched for rows written
//     after one.
//   - s, whether a transaction with a lower number has written the row later. That transaction was open at the time of e, so it is not
//     below oldest. So s only searches up to the next entry whose oldest is above the transaction of e. That is mostly n, so the search is
//     short.
//   - t, which is r if there is no n.
//   - d, the row as e or n found it.
//
// OFFSET 0 keeps the planner from computing d for each entry.
const pageSQL = `
SELECT m.horizon::text, m.trimmed::text, m.base, e.xid::text, e.id, e.op::text,
	n.id IS NOT NULL, n.before IS NOT NULL, s.superseded, t.{first key} IS NOT NULL, {writer and columns of t}, {columns of d}
FROM ` + momentSQL + ` m
LEFT JOIN LATERAL (
	SELECT xid, id, op, key, before FROM {changes}
	WHERE source = {source} AND (xid, id) > ((greatest($1 - m.base - 1, 0) / 2)::text::xid8, $2) AND xid < m.horizon
	ORDER BY xid, id LIMIT {batch}
) e ON true
LEFT JOIN LATERAL jsonb_populate_record(NULL::{table}, e.key) k ON true
LEFT JOIN {row}
LEFT JOIN LATERAL (
	SELECT id, before, oldest FROM {changes}
	WHERE source = {source} AND key = e.key AND id > e.id AND (e.op = 'D' OR r.{writer} IS DISTINCT FROM e.xid::xid) ORDER BY id LIMIT 1
) n ON true
LEFT JOIN LATERAL (
	SELECT CASE WHEN n.id IS NULL OR n.oldest > e.xid THEN false ELSE EXISTS (
		SELECT FROM {changes} o WHERE o.source = {source} AND o.key = e.key AND o.id > e.id AND o.xid < e.xid AND o.id < coalesce((
			SELECT q.id FROM {changes} q WHERE q.source = {source} AND q.key = e.key AND q.id > e.id AND q.oldest > e.xid ORDER BY q.id LIMIT 1
		), 9223372036854775807)
	) END AS superseded
) s ON true
LEFT JOIN LATERAL (SELECT r.* WHERE n.id IS NULL) t ON true
LEFT JOIN LATERAL (
	SELECT d.* FROM jsonb_populate_record(NULL::{table}, CASE WHEN e.op = 'D' THEN e.before ELSE n.before END) d
	WHERE e.op = 'D' OR n.before IS NOT NULL OFFSET 0
) d ON true
ORDER BY e.xid, e.id`

// entry is a row of pageSQL, without the columns of the moment, the writer of t, and the columns of t and d.
type entry struct {
	xid        *string // nil in the one row of a page without entries
	id         *int64
	op         *string
	hasNext    bool // a later entry has the same key
	nextBefore bool // that entry found a row
	superseded bool // a transaction with a lower number has written the row later
	present    bool // the row is there
}

// entryColumns is the number of columns of pageSQL before those of t and d.
const entryColumns = 11

// place is the place of an entry in the log.
type place struct {
	xid uint64
	id  int64
}

// batch is what a read returns from one snapshot.
type batch[T any] struct {
	events    []informer.Event[T]
	last      *place // of the last entry if there may be more; nil if there are none
	moment    moment
	unsettled bool // a transaction without a notification may be about to commit
}

// read reads the next entries of the log, and the row after each of them. It begins after a version or, if after is not nil, after a place
// that was read at a given moment.
func (t *Table[T]) read(ctx context.Context, at informer.Version, after *place, begin moment) (b batch[T], err error) {
	err = inTime(ctx, t.pool, t.patience, func(ctx context.Context) error {
		b, err = t.readNow(ctx, at, after, begin)
		if errors.Is(err, errNoEpoch) {
			if _, err = t.pool.Exec(ctx, t.queries.epoch); err == nil {
				b, err = t.readNow(ctx, at, after, begin)
			}
		}
		return err
	})
	return b, err
}

// readNow is read without a time limit. It takes one round trip.
func (t *Table[T]) readNow(ctx context.Context, at informer.Version, after *place, begin moment) (b batch[T], err error) {
	from, id := at, int64(math.MaxInt64)
	if after != nil {
		from, id = begin.versionOf(after.xid), after.id
	}
	queries := new(pgx.Batch)
	queries.Queue(t.queries.prepare)
	queries.Queue(t.queries.page, int64(min(from, math.MaxInt64)), id)
	results := t.pool.SendBatch(ctx, queries)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if err := results.QueryRow().Scan(nil, nil, nil, nil, &b.unsettled); err != nil {
		return b, err
	}
	rows, err := results.Query()
	if err != nil {
		return b, err
	}
	defer rows.Close()
	all := len(rows.FieldDescriptions())
	middle := (entryColumns + all) / 2
	now, before := &window{CollectableRow: rows, from: entryColumns, to: middle}, &window{CollectableRow: rows, from: middle, to: all}
	var m momentRow
	var e entry
	columns := make([]any, all) // nil leaves a column out
	copy(columns, []any{&m.horizon, &m.trimmed, &m.base, &e.xid, &e.id, &e.op, &e.hasNext, &e.nextBefore, &e.superseded, &e.present})
	var last place
	for n := 1; rows.Next(); n++ {
		if err := rows.Scan(columns...); err != nil {
			return b, err
		}
		if n == 1 {
			if b.moment, err = m.parse(); err != nil {
				return b, err
			}
			if err := checkPlace(b.moment, at, after, begin); err != nil {
				return b, err
			}
			clear(columns[:3]) // they are the same in each row
		}
		if e.xid == nil {
			break
		}
		last.id = *e.id
		if last.xid, err = parseXID(*e.xid); err != nil {
			return b, err
		}
		if b.events, err = t.appendEvents(b.events, &e, b.moment.versionOf(last.xid)-1, now, before); err != nil {
			return b, err
		}
		if n == batchSize {
			b.last = &last
		}
	}
	return b, rows.Err()
}

// checkPlace returns an error if the log cannot tell what follows a version, or a place that was read at a given moment.
func checkPlace(m moment, at informer.Version, after *place, begin moment) error {
	if uint64(at) < uint64(m.base) || after != nil && m.base != begin.base {
		return fmt.Errorf("%w: the server may have lost version %d in a crash or a failover", informer.ErrExpired, at)
	}
	done := m.doneAt(at)
	if after != nil {
		done = after.xid
	}
	switch {
	case done >= m.horizon:
		return fmt.Errorf("%w: the server is at version %d, not at %d", informer.ErrExpired, m.last(), m.versionOf(done))
	case done < m.trimmed:
		return fmt.Errorf("%w: the changes up to version %d are trimmed", informer.ErrExpired, m.versionOf(m.trimmed))
	}
	return nil
}

// appendEvents appends the events of an entry. now and before are the rows t and d of pageSQL.
func (t *Table[T]) appendEvents(
	events []informer.Event[T], e *entry, v informer.Version, now, before *window,
) ([]informer.Event[T], error) {
	if *e.op == opTruncate {
		return nil, fmt.Errorf("%w: the table was truncated", informer.ErrExpired)
	}
	if e.superseded {
		return events, nil
	}
	add := func(kind informer.EventType, row *window) error {
		obj, err := t.scan(row)
		events = append(events, informer.Event[T]{Type: kind, Object: obj, Version: v})
		return err
	}
	kind := informer.Modified
	switch *e.op {
	case opDelete:
		if err := add(informer.Deleted, before); err != nil {
			return nil, err
		}
		kind = informer.Added // if the row exists anyway, the entry of its insertion was reported and trimmed
	case opInsert:
		kind = informer.Added
	}
	switch {
	case !e.hasNext && e.present:
		return events, add(kind, now)
	case e.nextBefore && *e.op != opDelete:
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
