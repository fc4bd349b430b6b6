package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// A version is the number of a row of the log, and bits of the random number of that row. So versions are in the order of the log, and a
// version of a file that was restored, or replaced, is not one of the history that the file has now.
const (
	randomBits = 20
	noRow      = 1<<randomBits - 1 // the bits of a number whose row was deleted. They are the greatest, so that the version does not go back
)

// versionOf returns the version of a row of the log. r is null if the row was deleted.
func versionOf(n int64, r sql.NullInt64) informer.Version {
	bits := uint64(noRow)
	if r.Valid {
		bits = uint64(r.Int64) % noRow
	}
	return informer.Version(uint64(n)<<randomBits | bits)
}

// numberOf returns the number of the row of a version.
func numberOf(v informer.Version) int64 { return int64(v >> randomBits) }

// tableBatch is how many rows of the log a watch reads at once.
const tableBatch = 2000

// tableQueries are the queries of a table.
type tableQueries struct{ list, state, end, page, data, versionOf, trim string }

// latestSQL is the number of the last change, in one row. It is in sqlite_sequence, which keeps it when the log is emptied. But if a statement
// with OR FAIL fails after it has written some rows, those rows stay, and so does what the triggers have logged about them, but SQLite does
// not write sqlite_sequence.
const latestSQL = `(SELECT max(coalesce((SELECT q.seq FROM main.sqlite_sequence q WHERE q.name = {log name}), 0),
	coalesce((SELECT max(m.n) FROM {log} m), 0)) AS n)`

func newTableQueries(c TableConfig) tableQueries {
	key, inLog := quoted("t", c.Key), logColumns("l.", len(c.Key))
	kinds := make([]string, len(c.Key))
	for i, k := range logColumns("b.", len(c.Key)) {
		kinds[i] = k + ", typeof(" + k + ")"
	}
	replace := strings.NewReplacer(
		"{log}", "main."+quote(c.Log), "{log name}", literal(c.Log), "{table}", "main."+quote(c.Table), "{name}", literal(c.Table),
		"{columns}", strings.Join(quoted("t", c.Columns), ", "), "{exists}", notNull(key), "{key of b}", strings.Join(logColumns("b.", len(c.Key)), ", "),
		"{key of l}", strings.Join(inLog, ", "), "{kinds}", strings.Join(kinds, ", "), "{t is l}", allSame(key, inLog),
		"{batch}", fmt.Sprint(tableBatch), "{latest}", strings.NewReplacer("{log}", "main."+quote(c.Log), "{log name}", literal(c.Log)).Replace(latestSQL),
	).Replace
	return tableQueries{
		list: replace(`SELECT {columns} FROM {table} t WHERE {exists}`),
		state: replace(`SELECT v.schema_version, d.data_version, s.n, last.r, this.n IS NOT NULL, this.r,
				EXISTS (SELECT 1 FROM {log} next WHERE next.n = ?1 + 1)
			FROM pragma_schema_version v, pragma_data_version d, {latest} s LEFT JOIN {log} last ON last.n = s.n LEFT JOIN {log} this ON this.n = ?1`),
		// The last of the next rows, their number, and whether all of them have a key.
		end: replace(`SELECT count(*), coalesce(max(b.n), 0), b.r, count(b.k1)
			FROM (SELECT l.n, l.r, l.k1 FROM {log} l WHERE l.n > ?1 AND l.source = {name} ORDER BY l.n LIMIT {batch}) b`),
		// Each key by its last row, so that a row that exists comes after one whose key another program may take for the same.
		page: replace(`SELECT l.n, l.r, {key of l}, {exists}, {columns}
			FROM (SELECT max(b.n) AS n, b.r, {key of b} FROM {log} b WHERE b.n > ?1 AND b.n <= ?2 AND b.source = {name} GROUP BY {kinds}) l
			LEFT JOIN {table} t ON {t is l} ORDER BY l.n`),
		data:      `PRAGMA data_version`,
		versionOf: replace(`SELECT s.n, l.r FROM {latest} s LEFT JOIN {log} l ON l.n = s.n`),
		trim: replace(`DELETE FROM {log} WHERE n IN (
			SELECT l.n FROM {log} l WHERE l.n <= (SELECT s.n FROM {latest} s) - ?1 ORDER BY l.n LIMIT 5000)`),
	}
}

// state is the state of a file in a snapshot.
type state struct {
	schema, data int64         // change with the schema, and with the data of other connections
	n            int64         // the number of the last change
	r            sql.NullInt64 // of its row
	kept         bool          // the row of the version that was asked for is there
	at           sql.NullInt64 // the random number of that row
	next         bool          // the row after that is there
}

// state returns the state, and what the log has about a version.
func (t *Table[T]) state(ctx context.Context, c *tableConn, at informer.Version) (s state, err error) {
	query, err := c.prepared(ctx, t.queries.state)
	if err == nil {
		err = query.QueryRowContext(ctx, numberOf(at)).Scan(&s.schema, &s.data, &s.n, &s.r, &s.kept, &s.at, &s.next)
	}
	return s, err
}

// last returns the version of the last change.
func (s state) last() informer.Version { return versionOf(s.n, s.r) }

// has returns an error if the log does not have every change after a version, which is the one that was asked for.
func (s state) has(at informer.Version) error {
	n := numberOf(at)
	switch {
	case n == 0 && s.next, at == s.last():
		return nil
	case n > s.n:
		return fmt.Errorf("%w: it is at change %d, not at %d", informer.ErrNewHistory, s.n, n)
	case s.kept && versionOf(n, s.at) != at && at != versionOf(n, sql.NullInt64{}):
		return fmt.Errorf("%w: its change %d is another one", informer.ErrNewHistory, n)
	case !s.kept && !(s.next && at == versionOf(n, sql.NullInt64{})):
		return fmt.Errorf("%w: the log lacks change %d", informer.ErrExpired, n)
	}
	return nil
}

// tableReading is the state of a watch.
type tableReading[T any] struct {
	table        *Table[T]
	conn         *tableConn
	checked      bool
	schema, data int64     // as of the last read
	trimAt       time.Time // the next time
}

// next returns the next page after a version.
func (r *tableReading[T]) next(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	if err := r.isSameFile(); err != nil {
		return p, err
	}
	err = r.conn.read(ctx, func() (err error) {
		p, err = r.page(ctx, at)
		return err
	})
	if err == nil && p.Then == follow.Wait && r.table.expected.After(p.UpTo) {
		p.Then = follow.Settle
	}
	return p, err
}

// isSameFile returns an error if the file was replaced.
func (r *tableReading[T]) isSameFile() error {
	err := r.conn.replaced()
	if errors.Is(err, errReplaced) {
		err = fmt.Errorf("%w: %w", informer.ErrNewHistory, err)
	}
	return err
}

// page reads the next page in a transaction.
func (r *tableReading[T]) page(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	t := r.table
	if !r.checked {
		if err := t.check(ctx, r.conn); err != nil {
			return p, err
		}
	}
	s, err := t.state(ctx, r.conn, at)
	if err == nil {
		err = s.has(at)
	}
	if r.checked && (err != nil || s.schema != r.schema) && !errors.Is(err, informer.ErrNewHistory) {
		if changed := t.check(ctx, r.conn); changed != nil {
			return p, changed
		}
		err = cmp.Or(err, fmt.Errorf("%w: the schema of the file has changed", informer.ErrExpired))
	}
	if err != nil {
		return p, err
	}
	r.checked, r.schema, r.data = true, s.schema, s.data
	p.UpTo = max(at, s.last())
	if numberOf(at) == s.n {
		return p, nil
	}
	var count, end, keys int64
	var random sql.NullInt64
	query, err := r.conn.prepared(ctx, t.queries.end)
	if err == nil {
		err = query.QueryRowContext(ctx, numberOf(at)).Scan(&count, &end, &random, &keys)
	}
	switch {
	case err != nil:
		return p, err
	case keys < count:
		return p, fmt.Errorf("%w: the log may lack changes, because its triggers were installed again", informer.ErrExpired)
	case count == 0:
		return p, nil
	case count == tableBatch:
		p.UpTo, p.Then = versionOf(end, random), follow.Again
	}
	p.Events, err = r.events(ctx, numberOf(at), end)
	return p, err
}

// events returns the events of the rows of the log up to one.
func (r *tableReading[T]) events(ctx context.Context, after, upTo int64) (events []informer.Event[T], err error) {
	t := r.table
	query, err := r.conn.prepared(ctx, t.queries.page)
	if err != nil {
		return nil, err
	}
	rows, err := query.QueryContext(ctx, after, upTo)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	const before = 2 // columns before those of the key
	n, keys := len(t.cfg.Columns), len(t.cfg.Key)
	row := &rowscan.Part{Rows: rows, Skip: before + keys + 1, N: n}
	deleted := &rowscan.Part{Rows: rows, Skip: before + keys + 1, N: n, Key: map[int]int{}}
	for i, name := range t.cfg.Key {
		deleted.Key[slices.Index(t.cfg.Columns, name)] = before + i
	}
	var number int64
	var random sql.NullInt64
	var exists bool
	entry := make([]any, before+keys+1+n)
	for i := range entry {
		entry[i] = rowscan.Ignored{}
	}
	entry[0], entry[1], entry[before+keys] = &number, &random, &exists
	for rows.Next() {
		if err := rows.Scan(entry...); err != nil {
			return nil, err
		}
		e := informer.Event[T]{Type: informer.Modified, Version: versionOf(number, random)}
		if exists {
			e.Object, e.Err = rowscan.Object(t.scan, Row(row))
		}
		if !exists || e.Err != nil {
			if exists {
				e.Type = informer.Unreadable
			} else {
				e.Type, e.KeyOnly = informer.Deleted, true
			}
			obj, err := rowscan.Key(t.scan, Row(deleted))
			if err != nil {
				return nil, fmt.Errorf("%w: scan cannot read a row with only a key: %w", informer.ErrExpired, errors.Join(e.Err, err))
			}
			e.Object = obj
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

// changed reports whether another connection has written the file, or VersionOf says that one will. It notices a file that was replaced.
func (r *tableReading[T]) changed(ctx context.Context, at informer.Version) (changed bool, err error) {
	if err := r.isSameFile(); err != nil {
		return false, err
	}
	err = whileBusy(ctx, patience, func() error {
		query, err := r.conn.prepared(ctx, r.table.queries.data)
		var data int64
		if err == nil {
			err = query.QueryRowContext(ctx).Scan(&data)
		}
		changed = data != r.data
		return err
	})
	return changed || r.table.expected.After(at), err
}

// trimPeriod is how often a watch trims the log.
const trimPeriod = time.Minute

// rest does what a watch does now and then: it removes the changes that the history has no room for. If it must not, it leaves that to
// others, and if others write, it tries again later.
func (r *tableReading[T]) rest(ctx context.Context) error {
	if time.Now().Before(r.trimAt) {
		return nil
	}
	r.trimAt = time.Now().Add(trimPeriod)
	for deleted := int64(1); deleted > 0; {
		result, err := r.conn.ExecContext(ctx, r.table.queries.trim, r.table.cfg.History)
		if err == nil {
			deleted, err = result.RowsAffected()
		}
		switch {
		case isCode(err, codeReadOnly, "readonly"):
			r.table.mayNotTrim.Do(func() {
				r.table.cfg.Logger.WarnContext(ctx, "cannot trim the log of a table, and leaves that to others",
					"table", r.table.cfg.Table, "file", r.table.file.path, "error", err)
			})
			return nil
		case isBusy(err):
			return nil
		case err != nil:
			return cmp.Or(r.table.check(ctx, r.conn), err) // the log may be missing
		}
	}
	return nil
}
