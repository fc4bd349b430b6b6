package postgres

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/follow"
	"github.com/setpoint-go/setpoint/store/backend"
)

const (
	pageSize   = 1000 // records of a page of a list
	batchSize  = 1000 // changes that a watch reads at once
	fewSize    = 17   // records, or entries of a log, that it reads at once while there are few changes
	tableBatch = 2001 // entries of a log that a watch of a Table reads at once
)

// fullPeriod is how long a watch relies on few if there are no changes. A gap in the versions is a change that few does not find.
const fullPeriod = backend.BookmarkInterval / 2

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, kind string, q backend.Query) iter.Seq2[backend.Page, error] {
	return func(yield func(backend.Page, error) bool) {
		if err := b.list(ctx, kind, q, func(p backend.Page) bool { return yield(p, nil) }); err != nil {
			yield(backend.Page{}, failed(ctx, "list "+kind, err))
		}
	}
}

// Version implements [backend.Versioner].
func (b *Backend) Version(ctx context.Context) (informer.Version, error) {
	var version int64
	err := inTime(ctx, b.pool, b.patience, func(ctx context.Context) error {
		return b.pool.QueryRow(ctx, b.statements.version).Scan(&version)
	})
	if err != nil {
		return 0, failed(ctx, "read the version", err)
	}
	return informer.Version(version), nil
}

// list calls yield with page after page, all from one snapshot, until it returns false.
func (b *Backend) list(ctx context.Context, kind string, q backend.Query, yield func(backend.Page) bool) error {
	var tx pgx.Tx
	var version int64
	err := inTime(ctx, b.pool, b.patience, func(ctx context.Context) (err error) {
		if tx, err = b.pool.BeginTx(ctx, listing()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, b.statements.version).Scan(&version)
	})
	if tx != nil {
		defer endRead(ctx, tx, b.patience)
	}
	if err != nil {
		return err
	}
	after := "" // no key is empty
	n := 0      // rows of a page
	next := func(ctx context.Context) (page backend.Page, more bool, err error) {
		page.Version, page.Records = informer.Version(version), make([]backend.Record, 0, n)
		n = 0
		err = inTime(ctx, b.pool, b.patience, func(ctx context.Context) error {
			rows, err := tx.Query(ctx, b.statements.list, kind, after, q.Prefix, q.Prefix, pageSize)
			if err != nil {
				return err
			}
			var object row
			_, err = pgx.ForEachRow(rows, append([]any{&after}, object.shared()...), func() error {
				n++
				r, err := object.decode(after)
				if err != nil {
					return err
				}
				if !r.Deleted && q.Matches(r.Key, r.Labels) {
					page.Records = append(page.Records, r)
				}
				return nil
			})
			return err
		})
		return page, n == pageSize, err
	}
	return follow.Ahead(ctx, next, yield)
}

// Watch implements [backend.Backend].
func (b *Backend) Watch(
	ctx context.Context, kind string, q backend.Query, after informer.Version,
) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		n := 0             // changes of the last page of changes
		var full time.Time // when that page was read
		next := func(ctx context.Context, after informer.Version) ([]backend.Change, informer.Version, error) {
			if n < fewSize {
				all, upTo, ok, err := b.few(ctx, kind, after)
				if err != nil || ok && (upTo > after || time.Since(full) < fullPeriod) {
					return all, upTo, err
				}
			}
			full = time.Now()
			all, upTo, err := b.changes(ctx, kind, after, n)
			n = len(all)
			return all, upTo, err
		}
		watch := follow.Records(b.cfg.Poll, &b.listener.notified, q, batchSize, next)
		leave := b.listener.join()
		defer leave()
		if err := watch.Run(ctx, after, func(c backend.Change) bool { return yield(c, nil) }); err != nil {
			yield(backend.Change{}, failed(ctx, "watch "+kind, err))
		}
	}
}

// few does the same as changes, by a statement that takes less time, as long as there are few changes. It reads records of all kinds: that of
// the version itself, which shows that the version is not lost, and the next ones. If their versions are consecutive, and there are fewer of
// them than it may read, then there are no others: each version gets a record, which is kept until it is trimmed, and each is one more than
// the version before, except after a gap. Otherwise few returns false.
func (b *Backend) few(
	ctx context.Context, kind string, after informer.Version,
) (all []backend.Change, upTo informer.Version, ok bool, err error) {
	n, consecutive := 0, true
	err = inTime(ctx, b.pool, b.patience, func(ctx context.Context) error {
		rows, err := b.pool.Query(ctx, b.statements.few, kind, int64(after))
		if err != nil {
			return err
		}
		var news bool
		var key string
		var object row
		_, err = pgx.ForEachRow(rows, append([]any{&news, &key}, object.shared()...), func() error {
			consecutive = consecutive && informer.Version(object.version.Int64) == after+informer.Version(n)
			n++
			if !news || !consecutive {
				return nil
			}
			r, err := object.decode(key)
			all = append(all, backend.Change{Record: r, Version: r.Version})
			return err
		})
		return err
	})
	if err != nil || !consecutive || n == 0 || n == fewSize {
		return nil, 0, false, err
	}
	return all, after + informer.Version(n-1), true, nil
}

// changes returns the next changes of a kind after a version, and the version up to which they are complete. It expects n changes.
func (b *Backend) changes(
	ctx context.Context, kind string, after informer.Version, n int,
) (all []backend.Change, upTo informer.Version, err error) {
	var version, horizon int64
	var found, lost bool
	all = make([]backend.Change, 0, n)
	err = inTime(ctx, b.pool, b.patience, func(ctx context.Context) error {
		rows, err := b.pool.Query(ctx, b.statements.changes, kind, int64(after), batchSize)
		if err != nil {
			return err
		}
		var key pgtype.Text
		var object row
		_, err = pgx.ForEachRow(rows, append([]any{&version, &horizon, &lost, &key}, object.shared()...), func() error {
			found = true
			if !object.there() {
				return nil
			}
			r, err := object.decode(key.String)
			if err != nil {
				return err
			}
			all = append(all, backend.Change{Record: r, Version: r.Version})
			return nil
		})
		return err
	})
	switch {
	case err != nil:
		return nil, 0, err
	case !found:
		return nil, 0, fmt.Errorf("the table state of schema %q has no row", b.cfg.Schema)
	case after > informer.Version(version):
		if err := b.leap(ctx); err != nil {
			return nil, 0, err
		}
		return nil, 0, fmt.Errorf("%w: the schema is at version %d, not at %d", backend.ErrExpired, version, after)
	case lost:
		return nil, 0, fmt.Errorf("%w: the server has lost version %d", backend.ErrExpired, after)
	case after < informer.Version(horizon):
		return nil, 0, fmt.Errorf("%w: the changes before version %d are forgotten", backend.ErrExpired, horizon)
	case len(all) == batchSize:
		return all, all[batchSize-1].Version, nil
	}
	return all, informer.Version(version), nil
}

// leap leaves a gap in the versions if the server may have lost some of them and has accepted no write since. The next list then has a
// greater version than every cache has seen. Without the gap, a cache at a lost version would refuse all lists until the next write.
func (b *Backend) leap(ctx context.Context) error {
	err := inTime(ctx, b.pool, b.patience, func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, b.pool, writing(), func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, b.statements.lock); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, b.statements.leap) // its snapshot is of after the lock
			return err
		})
	})
	if isCode(err, readOnly, noRight) {
		return nil
	}
	return err
}
