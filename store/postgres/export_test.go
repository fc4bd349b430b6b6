package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// Installed returns the version before the first change.
func (t *Table[T]) Installed(ctx context.Context) (v informer.Version, err error) {
	err = t.snapshot(ctx, func(tx pgx.Tx, s state) error {
		var first uint64
		err := tx.QueryRow(ctx, t.cfg.with(`SELECT min(setpoint_xid)::text::bigint FROM {log}`)).Scan(&first)
		v = s.versionOf(first)
		return err
	})
	return v, err
}

// SetPatience limits the reads of watches.
func (b *Backend) SetPatience(d time.Duration) { b.patience, b.listener.patience = d, d }

// SetListenPatience limits what the connection for notifications does.
func (b *Backend) SetListenPatience(d time.Duration) { b.listener.patience = d }

// SetPatience limits the reads of watches.
func (t *Table[T]) SetPatience(d time.Duration) { t.patience, t.listener.patience = d, d }

// ChangesQuery is the query by which a watch reads: of a kind, after a version, at most so many changes.
func (b *Backend) ChangesQuery() string { return b.statements.changes }

// FewQuery is the query by which a watch reads a few changes: of a kind, after a version.
func (b *Backend) FewQuery() string { return b.statements.few }

// PageQueries are the queries by which a watch reads a page. The second one has a transaction and a sequence number as parameters.
func (t *Table[T]) PageQueries() (prepare, query string) {
	return prepareSQL, t.queries.page
}

// Log returns the name of the log, as SQL.
func (c TableConfig) Log() string {
	c = c.withDefaults()
	return pgx.Identifier{c.Schema, c.logName()}.Sanitize()
}

// Lock returns the arguments of the advisory lock of announcements.
func (c TableConfig) Lock() string { return c.lock() }

// Few reads the next changes of a kind after a version, if they are few.
func (b *Backend) Few(ctx context.Context, kind string, after informer.Version) ([]backend.Change, informer.Version, bool, error) {
	return b.few(ctx, kind, after)
}
