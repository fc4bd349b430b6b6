package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"iter"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	pageSize  = 1000 // records of a page of a list
	batchSize = 256  // changes that a watch reads at once
)

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := b.list(ctx, kind, q, func(p backend.Page) bool { return yield(p, nil) }); err != nil {
			yield(backend.Page{}, failed(ctx, "list "+kind, err))
		}
	}
}

// list calls yield with page after page, all from one snapshot, until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	tx, err := b.read.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	version, _, err := b.state(ctx, tx)
	if err != nil {
		return err
	}
	after, end := "", follow.PrefixEnd(q.Prefix) // no key is empty
	n := 0                                       // rows of a page
	next := func(ctx context.Context) (page backend.Page, more bool, err error) {
		page.Version, page.Records = version, make([]backend.Record, 0, n)
		rows, err := tx.QueryContext(ctx, b.tables.list, kind, after, q.Prefix, end, end, pageSize)
		if err != nil {
			return page, false, err
		}
		n = 0
		err = each(rows, func(r backend.Record) {
			n, after = n+1, r.Key
			if !r.Deleted && q.Matches(r.Key, r.Labels) {
				page.Records = append(page.Records, r)
			}
		})
		return page, n == pageSize, err
	}
	return follow.Ahead(ctx, next, yield)
}

// each calls f with each row of key, version, deleted, record.
func each(rows *sql.Rows, f func(backend.Record)) (err error) {
	defer func() { _ = rows.Close() }() // Err has the error
	var key string
	var version uint64
	var deleted bool
	var data sql.RawBytes // of the current row; decode copies it
	for rows.Next() {
		if err := rows.Scan(&key, &version, &deleted, &data); err != nil {
			return err
		}
		var r backend.Record
		if err := decode(key, version, deleted, data, &r); err != nil {
			return err
		}
		f(r)
	}
	return rows.Err()
}

// state returns the version of the last change, and the version from which on all changes are kept.
func (b *Backend) state(ctx context.Context, from queryer) (version, horizon informer.Version, err error) {
	err = from.QueryRowContext(ctx, b.tables.readState).Scan(&version, &horizon)
	return version, horizon, err
}

// Version implements [backend.Versioner].
func (b *Backend) Version(ctx context.Context) (informer.Version, error) {
	version, _, err := b.state(ctx, b.read)
	if err != nil {
		return 0, failed(ctx, "read the version", err)
	}
	return version, nil
}

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		next := func(ctx context.Context, after informer.Version) ([]backend.Change, informer.Version, error) {
			return b.changes(ctx, kind, after)
		}
		watch := follow.Records(b.cfg.Poll, &b.written, q, batchSize, next)
		watch.Changed = func(ctx context.Context, after informer.Version) (bool, error) {
			version, err := b.poll(ctx)
			return version != after, err
		}
		if err := watch.Run(ctx, after, func(c backend.Change) bool { return yield(c, nil) }); err != nil {
			yield(backend.Change{}, failed(ctx, "watch "+kind, err))
		}
	}
}

// changes returns the next changes of a kind after a version, and the version up to which they are complete.
func (b *Backend) changes(
	ctx context.Context, kind string, after informer.Version,
) (all []backend.Change, upTo informer.Version, err error) {
	tx, err := b.read.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	version, horizon, err := b.state(ctx, tx)
	switch {
	case err != nil:
		return nil, 0, err
	case after > version:
		return nil, 0, fmt.Errorf("%w: the file is at version %d, not at %d", backend.ErrExpired, version, after)
	case after < horizon:
		return nil, 0, fmt.Errorf("%w: the changes before version %d are forgotten", backend.ErrExpired, horizon)
	}
	rows, err := tx.QueryContext(ctx, b.tables.changes, int64(after), kind, batchSize)
	if err != nil {
		return nil, 0, err
	}
	if err := each(rows, func(r backend.Record) { all = append(all, backend.Change{Record: r, Version: r.Version}) }); err != nil {
		return nil, 0, err
	}
	if len(all) == batchSize {
		version = all[batchSize-1].Version
	}
	return all, version, nil
}

// poll returns the version of the file. Watches that ask at about the same time share one query.
func (b *Backend) poll(ctx context.Context) (informer.Version, error) {
	return b.latest.Get(b.cfg.Poll/2, func() (informer.Version, error) {
		version, _, err := b.state(ctx, b.read)
		return version, err
	})
}
