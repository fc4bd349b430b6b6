package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// tableBatch is how many rows of the log a watch reads at once.
const tableBatch = 2000

// queries are the statements of a table. Numbers are a part of the text, as the session needs it. Where they are, there are the following, which
// no name contains.
const (
	numberN = "\x00n"
	numberM = "\x00m"
	listed  = "\x00l"
)

type queries struct {
	list, last, lastUpTo, status, page, changed                   string // of rows and changes
	spans, base0, gaps, marks, empty, recent, late, behind        string // of gaps
	settle, split, unsettle, keep, mark, base, forget, ends, trim string // of trimming
}

func newQueries(c TableConfig, f found) queries {
	same := make([]string, len(f.Key))
	inTable, inLog := usertable.Quoted("t", f.Key), usertable.Quoted("l", f.Key)
	for i := range same {
		same[i] = inTable[i] + " = " + inLog[i]
	}
	exists := cmp.Or(f.NotNull("t"), "TRUE")
	with := func(sql string) string {
		return c.with(f, sql, "{columns}", strings.Join(usertable.Quoted("t", f.Columns), ", "), "{t is l}", strings.Join(same, " AND "),
			"{key of l}", strings.Join(inLog, ", "), "{key of b}", strings.Join(usertable.Quoted("b", f.Key), ", "),
			"{first of t}", inTable[0], "{exists}", exists, "{first}", usertable.Quote(f.Key[0].Name), "{batch}", strconv.Itoa(tableBatch),
			"{n}", numberN, "{m}", numberM, "{list}", listed)
	}
	return queries{
		list:     with(`SELECT {columns} FROM {table} t WHERE {exists}`),
		last:     with(`SELECT setpoint_n, setpoint_r FROM {log} ORDER BY setpoint_n DESC LIMIT 1`),
		lastUpTo: with(`SELECT setpoint_n, setpoint_r FROM {log} WHERE setpoint_n < {n} ORDER BY setpoint_n DESC LIMIT 1`),
		status: with(`SELECT (SELECT setpoint_r FROM {log} WHERE setpoint_n = {n}), (SELECT MIN(setpoint_n) FROM {log} WHERE setpoint_n > {n}),
			(SELECT MAX(setpoint_n) FROM {log})`),
		changed: with(`SELECT MAX(setpoint_n) FROM {log}`),
		page: with(`SELECT l.setpoint_n, l.setpoint_r, {key of l}, {first of t} IS NOT NULL, {columns}
			FROM (SELECT b.setpoint_n, b.setpoint_r, {key of b} FROM {log} b WHERE b.setpoint_n > {n} ORDER BY b.setpoint_n LIMIT {batch}) l
			LEFT JOIN {table} t ON {t is l} ORDER BY l.setpoint_n`),
		spans: with(`SELECT first, last FROM {gaps} WHERE last > {n}`),
		base0: with(`SELECT g.first, g.last FROM {gaps} g WHERE g.first = 0 OR g.last > (SELECT b.last FROM {gaps} b WHERE b.first = 0)`),
		gaps: with(`SELECT d.n + 1, d.next - 1 FROM (
				SELECT p.n, LEAD(p.n) OVER (ORDER BY p.n) AS next FROM (SELECT {n} AS n UNION ALL SELECT setpoint_n FROM {log} WHERE setpoint_n > {n}) p
			) d WHERE d.next > d.n + 1 ORDER BY d.n`),
		marks: with(`SELECT setpoint_n FROM {log} WHERE setpoint_n > {n} AND {first} IS NULL`),
		empty: with(`SELECT d.n + 1, d.next - 1 FROM (
				SELECT p.n, LEAD(p.n) OVER (ORDER BY p.n) AS next FROM (
					SELECT {n} AS n UNION ALL (SELECT setpoint_n FROM {log} WHERE setpoint_n > {n} ORDER BY setpoint_n LIMIT {batch})
				) p
			) d WHERE d.next > d.n + 1`),
		recent: with(`SELECT first, last FROM {gaps} WHERE first > 0 AND since >= UNIX_TIMESTAMP() - {n}`),
		late:   with(`SELECT MIN(setpoint_n) FROM {log} WHERE {list}`),
		behind: with(`SELECT COUNT(*) FROM {log} WHERE setpoint_n > {n}`),
		settle: with(`INSERT INTO {gaps} VALUES {list} ON DUPLICATE KEY UPDATE last = GREATEST(last, VALUES(last)), since = VALUES(since)`),
		split: with(`INSERT INTO {gaps} SELECT s.first, s.last, s.since FROM (
				SELECT {n} + 1 AS first, MAX(g.last) AS last, MAX(g.since) AS since FROM {gaps} g WHERE g.first BETWEEN 1 AND {n} AND g.last > {n} HAVING MAX(g.last) > {n}
			) s ON DUPLICATE KEY UPDATE last = GREATEST({gaps}.last, VALUES(last))`),
		unsettle: with(`UPDATE {gaps} SET last = {n} - 1 WHERE first BETWEEN 1 AND {n} AND last >= {n}`),
		keep:     with(`UPDATE {gaps} SET since = UNIX_TIMESTAMP() WHERE first BETWEEN 1 AND {n} AND last >= {n}`),
		mark:     with(markSQL),
		base:     with(`UPDATE {gaps} SET last = GREATEST(last, {n}) WHERE first = 0`),
		forget:   with(`DELETE FROM {gaps} WHERE first > 0 AND last <= {n} AND since < UNIX_TIMESTAMP() - {m}`),
		ends:     with(`SELECT MIN(setpoint_n), MAX(setpoint_n) FROM {log}`),
		trim:     with(`DELETE FROM {log} WHERE setpoint_n >= {n} AND setpoint_n < {m}`),
	}
}

// at returns a query with numbers.
func (queries) at(query string, n, m int64) string {
	return strings.NewReplacer(numberN, strconv.FormatInt(n, 10), numberM, strconv.FormatInt(m, 10)).Replace(query)
}

// status is what the log has about a version.
type status struct {
	r          sql.NullInt64 // the random number of its row
	next, last sql.NullInt64 // the next row, and the last one
}

// has returns an error if the log does not have every change after a version.
func (s status) has(at informer.Version) error {
	n := numberOf(at)
	switch {
	case s.r.Valid && s.r.Int64 == randomOf(at):
		return nil
	case !s.last.Valid:
		return expired("the log is empty")
	case s.r.Valid:
		return fmt.Errorf("%w: its change %d is another one", informer.ErrNewHistory, n)
	case n > s.last.Int64:
		return fmt.Errorf("%w: it is at change %d, not at %d", informer.ErrNewHistory, s.last.Int64, n)
	default:
		return expired(fmt.Sprintf("the log lacks change %d", n))
	}
}

// reading is the state of a watch.
type reading[T any] struct {
	table            *Table[T]
	session          usertable.Session
	usertable.Report // what was reported up to At

	checked bool
	delay   *follow.Delay
	settled spans
	gaps    map[int64]gap // that are not settled, by their first numbers
	probeAt time.Time     // when the gaps are looked at again

	comparing *usertable.Comparison // nil if there is none

	checkAt, trimAt, verifyAt time.Time // the next time
}

// end ends a comparison, and remembers what was reported.
func (r *reading[T]) end() {
	if r.comparing != nil {
		r.comparing.End()
	}
	if r.Rows != nil {
		r.table.memory.Put(r.Report)
	}
}

// next returns the next page after a version.
func (r *reading[T]) next(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	ctx, cancel := context.WithTimeout(ctx, r.table.patience)
	defer cancel()
	if !r.checked {
		if err := r.check(ctx); err != nil {
			return p, err
		}
		r.checked = true
	}
	p, err = r.read(ctx, at)
	if err = r.explained(ctx, err); err == nil {
		r.At = p.UpTo
		if p.Then == follow.Wait && r.table.expected.After(p.UpTo) {
			p.Then = follow.Settle
		}
	}
	return p, err
}

// explained returns the error of a check of the schema, if that may be the reason for an error, or else the error.
func (r *reading[T]) explained(ctx context.Context, err error) error {
	if e := new(mysql.MySQLError); errors.As(err, &e) || errors.Is(err, informer.ErrExpired) || errors.Is(err, informer.ErrNewHistory) {
		err = cmp.Or(r.check(ctx), err)
	}
	return err
}

// check checks the schema.
func (r *reading[T]) check(ctx context.Context) error {
	r.checkAt = time.Now().Add(backend.BookmarkInterval)
	columns, err := r.table.check(ctx, r.session)
	switch {
	case err != nil:
		return err
	case r.Columns == nil:
		r.Columns = columns
	case !slices.Equal(r.Columns, columns): // then rows may look different without having been written
		return expired("the columns of the table have other definitions")
	}
	return nil
}

// read reads the next page. It ends before the first gap that is not settled.
func (r *reading[T]) read(ctx context.Context, at informer.Version) (p follow.Page[informer.Event[T]], err error) {
	t, n := r.table, numberOf(at)
	p.UpTo = at
	var s status
	if err := r.session.QueryRowContext(ctx, t.queries.at(t.queries.status, n, 0)).Scan(&s.r, &s.next, &s.last); err != nil {
		return p, err
	}
	if err := s.has(at); err != nil || !s.next.Valid {
		r.delay.Note(0, false)
		return p, err
	}
	if _, missing := r.settled.missing(n+1, s.next.Int64-1); missing {
		// Spans are read before the rows, so that a change of which they say that it never comes is in the rows, if it has come.
		if r.settled, err = readSpans(ctx, r.session, t.queries.spans, n); err != nil {
			return p, err
		}
	}
	if _, missing := r.settled.missing(n+1, s.next.Int64-1); missing {
		if err := r.settle(ctx, n); err != nil {
			return p, err
		}
		if first, missing := r.settled.missing(n+1, s.next.Int64-1); missing {
			r.delay.Note(uint64(first), true)
			p.Then = follow.Settle
			return p, nil
		}
	}
	r.delay.Note(0, false)
	return p, r.page(ctx, &p)
}

// page fills p with the changes after p.UpTo.
func (r *reading[T]) page(ctx context.Context, p *follow.Page[informer.Event[T]]) (err error) {
	t := r.table
	rows, err := r.session.QueryContext(ctx, t.queries.at(t.queries.page, numberOf(p.UpTo), 0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var number, random int64
	entries := t.reader.Entries(rows, &number, &random)
	count := 0
	for {
		if ok, err := entries.Next(); err != nil || !ok {
			if count == tableBatch {
				p.Then = follow.Again
			}
			return err
		}
		if _, missing := r.settled.missing(numberOf(p.UpTo)+1, number-1); missing {
			p.Then = follow.Again
			return nil
		}
		count++
		last := p.UpTo
		p.UpTo = versionOf(number, random)
		if !entries.HasKey() {
			if r.Marks[number] {
				continue
			}
			return expired("the log lacks changes, or the table has changed without its triggers")
		}
		if p.Events, err = entries.AddTo(p.Events, last, p.UpTo, &r.Report); err != nil {
			return err
		}
	}
}

// changed reports whether the log has a row after a version.
func (r *reading[T]) changed(ctx context.Context, at informer.Version) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.table.patience)
	defer cancel()
	var last sql.NullInt64
	err := r.session.QueryRowContext(ctx, r.table.queries.changed).Scan(&last)
	if e := new(mysql.MySQLError); errors.As(err, &e) {
		return true, nil // the read says why
	}
	return last.Int64 != numberOf(at) || r.table.expected.After(at), err
}

// trimPeriod is how often a watch trims the log.
const trimPeriod = time.Minute

// rest does what a watch does now and then.
func (r *reading[T]) rest(ctx context.Context) (err error) {
	whole := ctx // a comparison takes longer
	ctx, cancel := context.WithTimeout(ctx, r.table.patience)
	defer cancel()
	now := time.Now()
	if now.After(r.checkAt) {
		if err = r.check(ctx); err == nil {
			err = r.findLate(ctx, trimPeriod)
		}
	}
	if err == nil && now.After(r.trimAt) {
		r.trimAt = now.Add(trimPeriod)
		if err = r.findLate(ctx, lateTime); err == nil {
			err = r.trim(ctx)
		}
	}
	if err == nil {
		err = r.verify(whole)
	}
	return r.explained(ctx, err)
}
