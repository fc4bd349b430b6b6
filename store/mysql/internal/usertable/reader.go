package usertable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/internal/rowscan"
)

// Row is a row that a scan function reads.
type Row interface{ Scan(dest ...any) error }

// Reader reads rows of a table, and makes objects of them. It is safe for concurrent use.
type Reader[T any] struct {
	scan    func(Row) (T, error)
	columns int
	key     []int // the columns of the key, among those that are read
	seed    maphash.Seed
}

// NewReader returns a reader of the columns of a schema.
func NewReader[T any](scan func(Row) (T, error), s Schema) *Reader[T] {
	r := &Reader[T]{scan: scan, columns: len(s.Columns), seed: maphash.MakeSeed()}
	for _, name := range Names(s.Key) {
		r.key = append(r.key, slices.Index(Names(s.Columns), name))
	}
	return r
}

func (r *Reader[T]) newValues() *values {
	v := &values{all: make([]value, r.columns), key: r.key, seed: r.seed}
	for i := range v.all {
		v.dest = append(v.dest, &v.all[i])
	}
	return v
}

// pageSize is the number of rows of a page of a list.
const pageSize = 1000

// List calls yield with page after page of the rows of a query, until it returns false, and notes them in report. If yield has taken all of them,
// List puts report into memory. It closes rows.
func (r *Reader[T]) List(ctx context.Context, rows *sql.Rows, report Report, memory *Memory, yield func(informer.List[T]) bool) error {
	whole := false
	err := follow.Ahead(ctx, r.pages(rows, report), func(l informer.List[T]) bool {
		whole = yield(l)
		return whole
	})
	if err = errors.Join(err, rows.Close()); err == nil && whole {
		memory.Put(report)
	}
	return err
}

// pages returns a function that reads the next page of a list, and notes its rows in report.
func (r *Reader[T]) pages(rows *sql.Rows, report Report) func(context.Context) (informer.List[T], bool, error) {
	row := &rowscan.Part{Rows: rows, N: r.columns}
	key := &rowscan.Part{Rows: rows, N: r.columns, Key: map[int]int{}}
	for _, i := range r.key {
		key.Key[i] = i
	}
	values := r.newValues()
	return func(context.Context) (informer.List[T], bool, error) {
		page := informer.List[T]{Version: report.At}
		for rows.Next() {
			if err := rows.Scan(values.dest...); err != nil {
				return page, false, err
			}
			report.Rows[values.keyHash()] = values.hash()
			rowscan.AddTo(&page, r.scan, Row(row), Row(key))
			if len(page.Items)+len(page.Unread) == pageSize {
				return page, true, nil
			}
		}
		return page, false, rows.Err()
	}
}

// Entries are the entries of a log of keys, each joined with the row that has the key. The columns are some of the log, the key of the log,
// whether there is a row, and the columns of the row.
type Entries[T any] struct {
	reader           *Reader[T]
	rows             *sql.Rows
	key              []value
	exists           bool // there is a row
	values           *values
	present, deleted *rowscan.Part
	dest             []any
	reported         map[string]struct{} // keys, as text
	text             []byte
}

// Entries returns the entries of the rows of a query. Those of the log are scanned into dest.
func (r *Reader[T]) Entries(rows *sql.Rows, dest ...any) *Entries[T] {
	before := len(dest)
	skip := before + len(r.key) + 1
	e := &Entries[T]{
		reader: r, rows: rows, key: make([]value, len(r.key)), values: r.newValues(), reported: map[string]struct{}{},
		present: &rowscan.Part{Rows: rows, Skip: skip, N: r.columns},
		deleted: &rowscan.Part{Rows: rows, Skip: skip, N: r.columns, Key: map[int]int{}},
	}
	for i, column := range r.key {
		e.deleted.Key[column] = before + i
	}
	e.dest = dest
	for i := range e.key {
		e.dest = append(e.dest, &e.key[i])
	}
	e.dest = append(append(e.dest, &e.exists), e.values.dest...)
	return e
}

// Next reads the next entry, if there is one.
func (e *Entries[T]) Next() (bool, error) {
	if !e.rows.Next() {
		return false, e.rows.Err()
	}
	return true, e.rows.Scan(e.dest...)
}

// HasKey reports whether the entry has a key.
func (e *Entries[T]) HasKey() bool { return !e.key[0].null }

// AddTo adds the events of the entry, unless its key was reported before. at is the version after it, and last the one before it. note notes
// what is reported.
func (e *Entries[T]) AddTo(events []informer.Event[T], last, at informer.Version, report *Report) ([]informer.Event[T], error) {
	e.text = e.text[:0]
	for _, v := range e.key {
		e.text = appendValue(e.text, v)
	}
	if _, again := e.reported[string(e.text)]; again {
		return events, nil // its row is the same
	}
	e.reported[string(e.text)] = struct{}{}
	scan := e.reader.scan
	isKey := e.exists && string(e.values.keyText()) == string(e.text)
	report.note(maphash.Bytes(e.reader.seed, e.text), isKey, e.values)
	if !isKey {
		obj, err := rowscan.Key(scan, Row(e.deleted))
		if err != nil {
			return events, fmt.Errorf("%w: a row is gone, and scan cannot read a row with only a key: %w", informer.ErrExpired, err)
		}
		gone := informer.Event[T]{Type: informer.Deleted, Object: obj, KeyOnly: true, Version: at}
		if e.exists { // under another key, which the collation takes for the same
			gone.Version = last // until the next event
		}
		events = append(events, gone)
	}
	if e.exists {
		report.note(e.values.keyHash(), true, e.values)
		written := informer.Event[T]{Type: informer.Modified, Version: at}
		if written.Object, written.Err = rowscan.Object(scan, Row(e.present)); written.Err != nil {
			written.Type = informer.Unreadable
			var err error
			if written.Object, err = rowscan.Key(scan, Row(e.deleted)); err != nil {
				return events, fmt.Errorf("%w: scan cannot read a row, nor its key: %w", informer.ErrExpired, written.Err)
			}
		}
		events = append(events, written)
	}
	return events, nil
}
