package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// momentSQL is the state of transactions in a snapshot, in one row: the first one that was open, or the next one if none was; and whether any
// was open. Because of OFFSET 0, the server computes it once, and not for each entry.
const momentSQL = `(SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS horizon,
	pg_catalog.age(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid) <> 0 AS open OFFSET 0) m`

// pageSQL reads the next entries of the log after a transaction and a sequence number, with the present row of each: the columns entryColumns,
// the key, true if there is a row, and the row. It is one statement, so it has one snapshot. It names no column of the row but by its table,
// so no name can be confused with another.
//
// The limit is a constant, because for a parameter the planner assumes a tenth of the log. The transaction is in a subquery, because the
// planner would find for a parameter that few entries follow, and make a plan of its own for each page. The rows have no ORDER BY, because a
// sort would send nothing before the last row is found. They are in order anyway, since the server looks up r for one entry after another.
//
// The log has every entry after a transaction if it has one of that transaction or below, because what is trimmed is a beginning of the log.
const pageSQL = `
SELECT m.horizon, m.open, (SELECT s.base FROM {schema}.epoch s), (
	SELECT true FROM {log} l WHERE l.setpoint_xid <= (SELECT $1::pg_catalog.text::pg_catalog.xid8) ORDER BY l.setpoint_xid DESC LIMIT 1
), e.setpoint_xid, e.setpoint_seq, {key of e}, r.*
FROM ` + momentSQL + `
LEFT JOIN LATERAL (
	SELECT l.setpoint_xid, l.setpoint_seq, {key of l} FROM {log} l
	WHERE (l.setpoint_xid, l.setpoint_seq) > ((SELECT $1::pg_catalog.text::pg_catalog.xid8), $2) AND l.setpoint_xid < m.horizon
	ORDER BY l.setpoint_xid, l.setpoint_seq LIMIT {size}
) e ON true
LEFT JOIN LATERAL (SELECT true, {columns of t} FROM {table} t WHERE {t is e} LIMIT 1) r ON true`

// The columns of pageSQL before those of the key.
const entryColumns = 6

// prepareSQL runs before pageSQL, in the same transaction. It turns off jit, because compiling pageSQL would take longer than running it, and
// makes the planner use the indexes. Left alone, the server may read and sort the whole log for each page, with a plan from when the log was
// short.
const prepareSQL = `SELECT set_config('jit', 'off', true), set_config('enable_sort', 'off', true),
	set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_memoize', 'off', true)`

// tableQueries are the queries of a table.
type tableQueries struct {
	moment, latest, list, ranges, few, page, trim, epoch, versionOf string
}

func newTableQueries(cfg TableConfig, operators []string) tableQueries {
	same := make([]string, len(cfg.Key))
	for i, column := range cfg.Key {
		name := pgx.Identifier{column}.Sanitize()
		same[i] = "t." + name + " " + operators[i] + " e." + name
	}
	pageOf := func(size int) string {
		return cfg.with(pageSQL, "{size}", strconv.Itoa(size), "{t is e}", strings.Join(same, " AND "))
	}
	return tableQueries{
		moment: cfg.with(`SELECT m.horizon, m.open, (SELECT s.base FROM {schema}.epoch s WHERE s.system = (SELECT system_identifier FROM pg_control_system())),
			current_setting('default_transaction_isolation') = 'serializable' FROM ` + momentSQL),
		latest: cfg.with(`SELECT l.setpoint_xid FROM {log} l ORDER BY l.setpoint_xid DESC LIMIT 1`), // of those that the snapshot shows
		list:   cfg.with(`SELECT {columns of t} FROM {table} t`),
		// The names of the columns of the ranges differ from those of the table, which SlotBy may not qualify.
		ranges: cfg.with(`SELECT {columns of t} FROM unnest($1::bigint[], $2::bigint[]) setpoint_ranges (setpoint_from, setpoint_to)
			JOIN {table} t ON {slot hash} >= setpoint_from AND {slot hash} < setpoint_to`),
		few:  pageOf(fewSize),
		page: pageOf(tableBatch),
		// It leaves an entry below the first open transaction, as a proof that later ones are there.
		trim: cfg.with(`DELETE FROM {log} l WHERE l.setpoint_xid < (
				SELECT k.setpoint_xid FROM {log} k WHERE k.setpoint_xid < pg_snapshot_xmin(pg_current_snapshot()) AND k.setpoint_xid <= (
					SELECT x.setpoint_xid FROM {log} x ORDER BY x.setpoint_xid DESC OFFSET $1 LIMIT 1
				) ORDER BY k.setpoint_xid DESC LIMIT 1)`),
		epoch:     cfg.with(`SELECT {schema}.epoch()`),
		versionOf: cfg.with(`SELECT pg_current_xact_id()::text, {schema}.epoch()`),
	}
}

// moment is the state of transactions in a snapshot.
type moment struct {
	base    int64  // of the versions, see logSQL
	horizon uint64 // the first transaction that was open, or the next one if none was
	open    bool   // a transaction was open
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

// place is where a read begins: after an entry, or after all entries of a transaction.
type place struct {
	xid uint64
	seq int64
}

// after returns the place after all entries of a transaction.
func after(xid uint64) place { return place{xid, math.MaxInt64} }

// batch is what a read returns from one snapshot.
type batch[T any] struct {
	events []informer.Event[T]
	last   *place // of the last entry that was reported, if there may be more
	moment moment
}

// read reads up to size-1 entries of the log, and the present row of each. The version at is that of the place. It takes one round trip.
func (t *Table[T]) read(ctx context.Context, at informer.Version, from place, base int64, size int) (b batch[T], err error) {
	args := []any{formatXID(from.xid), from.seq}
	err = inTime(ctx, t.pool, t.patience, func(ctx context.Context) error {
		if size == fewSize && !t.serializable.Load() {
			rows, err := t.pool.Query(ctx, t.queries.few, args...)
			if err != nil {
				return err
			}
			return t.collect(&b, rows, size)
		}
		queries := new(pgx.Batch)
		queries.Queue("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
		query := t.queries.few
		if size != fewSize {
			query = t.queries.page
			queries.Queue(prepareSQL)
		}
		queries.Queue(query, args...).Query(func(rows pgx.Rows) error { return t.collect(&b, rows, size) })
		queries.Queue("COMMIT")
		return t.pool.SendBatch(ctx, queries).Close()
	})
	switch {
	case err != nil:
		return b, err
	case b.moment.base != base:
		return b, fmt.Errorf("%w: the server may have lost version %d in a crash or a failover", informer.ErrExpired, at)
	case from.xid >= b.moment.horizon:
		return b, fmt.Errorf("%w: the server is at version %d, not at %d", informer.ErrExpired, b.moment.last(), at)
	}
	return b, nil
}

// collect fills b with the rows of pageSQL. It reports each key once, by its first entry: its row is the same for later ones.
func (t *Table[T]) collect(b *batch[T], rows pgx.Rows, size int) error {
	defer rows.Close()
	if len(rows.FieldDescriptions()) == 0 { // the query has failed
		rows.Close()
		return rows.Err()
	}
	var base pgtype.Int8
	var kept, there pgtype.Bool
	var xid pgtype.Uint64 // null in the one row of a page without entries
	var seq pgtype.Int8
	key := t.newKeyReader(rows)
	entry := make([]any, len(rows.FieldDescriptions())) // nil leaves a column out
	copy(entry, []any{&b.moment.horizon, &b.moment.open, &base, &kept, &xid, &seq})
	entry[key.row.from-1] = &there
	reported := make(map[string]struct{})
	var last place
	n := 0
	for rows.Next() {
		if err := rows.Scan(entry...); err != nil {
			return err
		}
		b.moment.base = base.Int64 // 0 if a new epoch has to begin
		if !kept.Bool {
			return fmt.Errorf("%w: the next changes are trimmed", informer.ErrExpired)
		}
		if !xid.Valid {
			break
		}
		t.endTransaction(b, xid.Uint64)
		if n++; n == size {
			b.last = &last
			break
		}
		last = place{xid.Uint64, seq.Int64}
		id, null := key.id()
		if null {
			return fmt.Errorf("%w: the table was truncated, or its log lacks changes", informer.ErrExpired)
		}
		if _, again := reported[id]; again {
			continue
		}
		reported[id] = struct{}{}
		v := b.moment.versionOf(xid.Uint64) - 1
		if !there.Bool || !key.matches() {
			obj, err := rowscan.Key(t.scan, pgx.CollectableRow(key.deleted))
			if err != nil {
				return fmt.Errorf("%w: a row is gone, and scan cannot read a row with only a key: %w", informer.ErrExpired, err)
			}
			b.events = append(b.events, informer.Event[T]{Type: informer.Deleted, Object: obj, KeyOnly: true, Version: v})
		}
		if there.Bool {
			e := informer.Event[T]{Type: informer.Modified, Version: v}
			if e.Object, e.Err = rowscan.Object(t.scan, pgx.CollectableRow(key.row)); e.Err != nil {
				e.Type = informer.Unreadable
				var err error
				if e.Object, err = rowscan.Key(t.scan, pgx.CollectableRow(key.deleted)); err != nil {
					return fmt.Errorf("%w: scan cannot read a row, nor its key: %w", informer.ErrExpired, e.Err)
				}
			}
			b.events = append(b.events, e)
		}
	}
	rows.Close()
	if b.last == nil && len(b.events) > 0 {
		b.events[len(b.events)-1].Version = b.moment.last()
	}
	return rows.Err()
}

// endTransaction gives the last event the version after its transaction, if the next entry is of another one.
func (t *Table[T]) endTransaction(b *batch[T], next uint64) {
	if end := len(b.events) - 1; end >= 0 && b.moment.doneAt(b.events[end].Version+1) < next {
		b.events[end].Version |= 1
	}
}

// keyReader reads the key of an entry from a row of pageSQL.
type keyReader struct {
	row, deleted *part
	of           []int // the columns of the key in the row
}

func (t *Table[T]) newKeyReader(rows pgx.Rows) *keyReader {
	fields := rows.FieldDescriptions()
	from := entryColumns + len(t.cfg.Key) + 1
	k := &keyReader{row: &part{Rows: rows, from: from}, deleted: &part{Rows: rows, from: from, key: make(map[int]int)}}
	for i, name := range t.cfg.Key {
		column := slices.IndexFunc(fields[from:], func(f pgconn.FieldDescription) bool { return f.Name == name })
		k.of = append(k.of, from+column)
		k.deleted.key[column] = entryColumns + i
	}
	return k
}

// id returns the bytes of the key, and whether it is null.
func (k *keyReader) id() (id string, null bool) {
	values := k.row.Rows.RawValues()[entryColumns : entryColumns+len(k.of)]
	if len(values) == 1 {
		return string(values[0]), values[0] == nil
	}
	var all []byte
	null = true
	for _, value := range values {
		all = append(binary.AppendUvarint(all, uint64(len(value))), value...)
		null = null && value == nil
	}
	return string(all), null
}

// matches reports whether the row has the same key, byte by byte.
func (k *keyReader) matches() bool {
	values := k.row.Rows.RawValues()
	for i, column := range k.of {
		if string(values[entryColumns+i]) != string(values[column]) {
			return false
		}
	}
	return true
}

// part is the columns of another row from one on. Unlike the Scan of pgx.Rows, its Scan does not end the query when it fails: the other rows
// can be read.
type part struct {
	pgx.Rows
	from  int
	key   map[int]int // if set, only these columns have values: those of other columns of the other row
	plans []scanPlan  // of the last Scan, for each column of the other row
}

// scanPlan is how to scan a column into a type.
type scanPlan struct {
	into reflect.Type
	plan pgtype.ScanPlan
}

func (p *part) FieldDescriptions() []pgconn.FieldDescription {
	return p.Rows.FieldDescriptions()[p.from:]
}

func (p *part) Scan(dest ...any) error {
	if len(dest) == 1 {
		if s, ok := dest[0].(pgx.RowScanner); ok {
			return s.ScanRow(p)
		}
	}
	if n := len(p.FieldDescriptions()); len(dest) != n {
		return fmt.Errorf("the row has %d columns, %d are scanned", n, len(dest))
	}
	if p.key == nil {
		for column := range dest {
			if err := p.scan(column, p.from+column, dest[column]); err != nil {
				return err
			}
		}
		return nil
	}
	for column, from := range p.key {
		if err := p.scan(column, from, dest[column]); err != nil {
			return err
		}
	}
	return nil
}

// scan scans a column of the other row, which is a column of this one.
func (p *part) scan(column, from int, dest any) error {
	if dest == nil { // it is not wanted
		return nil
	}
	field, value := p.Rows.FieldDescriptions()[from], p.Rows.RawValues()[from]
	if p.plans == nil {
		p.plans = make([]scanPlan, len(p.Rows.FieldDescriptions()))
	}
	plan := &p.plans[from]
	if into := reflect.TypeOf(dest); plan.into != into {
		*plan = scanPlan{into, p.Rows.Conn().TypeMap().PlanScan(field.DataTypeOID, field.Format, dest)}
	}
	if err := plan.plan.Scan(value, dest); err != nil {
		return pgx.ScanArgError{ColumnIndex: column, FieldName: field.Name, Err: err}
	}
	return nil
}

func (p *part) RawValues() [][]byte { return partOf(p, p.Rows.RawValues()) }

func (p *part) Values() ([]any, error) {
	values, err := p.Rows.Values()
	if err != nil {
		return nil, err
	}
	return partOf(p, values), nil
}

// partOf returns the values of a part.
func partOf[V any](p *part, values []V) []V {
	if p.key == nil {
		return values[p.from:]
	}
	some := make([]V, len(values)-p.from)
	for column, from := range p.key {
		some[column] = values[from]
	}
	return some
}
