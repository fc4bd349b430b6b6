package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
)

// pageSize is how many rows a page of a list is read from.
const pageSize = 1000

// batchSize is how many changes a watch reads at once.
const batchSize = 1000

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := b.list(ctx, kind, q, func(p backend.Page) bool { return yield(p, nil) }); err != nil {
			yield(backend.Page{}, failedCall(ctx, "list "+kind, err))
		}
	}
}

// list calls yield with page after page, all from one snapshot, until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	var tx *sql.Conn
	var at position
	err := inTime(ctx, b.patience, func(ctx context.Context) (err error) {
		tx, err = start(ctx, b.db, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
		if err == nil {
			at, err = b.state(ctx, tx)
		}
		return err
	})
	if tx != nil {
		defer b.endRead(ctx, tx)
	}
	if err != nil {
		return err
	}
	limits := ""
	if q.Prefix != "" {
		limits = " AND `key` >= " + bytesSQL(q.Prefix)
		if end := follow.PrefixEnd(q.Prefix); end != "" {
			limits += " AND `key` < " + bytesSQL(end)
		}
	}
	after := "" // no key is empty
	n := 0      // rows of a page
	next := func(ctx context.Context) (page backend.Page, more bool, err error) {
		page.Version, page.Records = informer.Version(at.version), make([]backend.Record, 0, n)
		n = 0
		err = inTime(ctx, b.patience, func(ctx context.Context) error {
			rows, err := tx.QueryContext(ctx, fmt.Sprintf(b.tables.list, bytesSQL(kind), bytesSQL(after), limits, pageSize))
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }() // Err has the error
			var o object
			for rows.Next() {
				if err := rows.Scan(append([]any{&after}, o.shared()...)...); err != nil {
					return err
				}
				n++
				r, err := o.decode(after)
				if err != nil {
					return err
				}
				if !r.Deleted && q.Matches(r.Key, r.Labels) {
					page.Records = append(page.Records, r)
				}
			}
			return rows.Err()
		})
		return page, n == pageSize, err
	}
	return follow.Ahead(ctx, next, yield)
}

// endRead ends a transaction that has only read. Its connection may be half-open by now.
func (b *Backend) endRead(ctx context.Context, tx *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience)
	defer cancel()
	if _, err := tx.ExecContext(ctx, "ROLLBACK"); err != nil {
		_ = usertable.Session{Conn: tx}.Close() // the server rolls back
		return
	}
	_ = tx.Close() // it returns to the pool
}

// state returns the row of the table state.
func (b *Backend) state(ctx context.Context, on conn) (at position, err error) {
	err = on.QueryRowContext(ctx, b.tables.state).Scan(&at.version, &at.horizon)
	return at, err
}

// Version implements [backend.Versioner].
func (b *Backend) Version(ctx context.Context) (informer.Version, error) {
	version, err := b.version(ctx)
	if err != nil {
		return 0, failedCall(ctx, "read the version", err)
	}
	return version, nil
}

func (b *Backend) version(ctx context.Context) (informer.Version, error) {
	var at position
	err := inTime(ctx, b.patience, func(ctx context.Context) (err error) {
		at, err = b.state(ctx, b.db)
		return err
	})
	return informer.Version(at.version), err
}

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		n := 0 // changes of the last page
		next := func(ctx context.Context, after informer.Version) ([]backend.Change, informer.Version, error) {
			all, upTo, err := b.changes(ctx, kind, after, n)
			n = len(all)
			return all, upTo, err
		}
		watch := follow.Records(b.cfg.Poll, &b.written, q, batchSize, next)
		watch.Changed = func(ctx context.Context, after informer.Version) (bool, error) {
			version, err := b.poll(ctx)
			return version != after, err
		}
		if err := watch.Run(ctx, after, func(c backend.Change) bool { return yield(c, nil) }); err != nil {
			yield(backend.Change{}, failedCall(ctx, "watch "+kind, err))
		}
	}
}

// changes returns the next changes of a kind after a version, and the version up to which they are complete. It expects n changes.
func (b *Backend) changes(
	ctx context.Context, kind string, after informer.Version, n int,
) (all []backend.Change, upTo informer.Version, err error) {
	var at position
	var found, known bool
	all = make([]backend.Change, 0, n)
	err = inTime(ctx, b.patience, func(ctx context.Context) error {
		rows, err := b.db.QueryContext(ctx, fmt.Sprintf(b.tables.changes, bytesSQL(kind), after, batchSize))
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }() // Err has the error
		var o object
		var key sql.NullString
		var horizon sql.NullInt64
		var count sql.NullBool
		columns := []any{&o.version, &key, &o.deleted, (*sql.RawBytes)(&o.record), (*sql.RawBytes)(&o.value), &horizon, &count}
		for rows.Next() {
			if err := rows.Scan(columns...); err != nil {
				return err
			}
			if horizon.Valid {
				at, found, known = position{version: o.version.Int64, horizon: horizon.Int64}, true, count.Bool
				continue
			}
			r, err := o.decode(key.String)
			if err != nil {
				return err
			}
			all = append(all, backend.Change{Record: r, Version: r.Version})
		}
		return rows.Err()
	})
	slices.SortFunc(all, func(a, b backend.Change) int { return cmp.Compare(a.Version, b.Version) }) // as they are, but no rule says so
	version, horizon := informer.Version(at.version), informer.Version(at.horizon)
	switch {
	case err != nil:
		return nil, 0, err
	case !found:
		return nil, 0, fmt.Errorf("the table %s has no row", b.tables.names[stateTable])
	case after < horizon:
		return nil, 0, fmt.Errorf("%w: the changes before version %d are forgotten", backend.ErrExpired, horizon)
	case after > horizon && !known:
		return nil, 0, fmt.Errorf("%w: the tables are at version %d, and do not know %d", informer.ErrNewHistory, version, after)
	case len(all) == batchSize:
		version = all[batchSize-1].Version
	}
	return all, version, nil
}

// poll returns the version of the tables. Watches that ask at about the same time share one query.
func (b *Backend) poll(ctx context.Context) (informer.Version, error) {
	return b.latest.Get(b.cfg.Poll/2, func() (informer.Version, error) { return b.version(ctx) })
}
