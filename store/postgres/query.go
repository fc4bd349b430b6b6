package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/informer/poll"
	"github.com/setpoint-go/setpoint/internal/reconcile"
)

// Query is a source made of a query, for informer.New. It needs only the right to SELECT. A Query runs the query at intervals and compares
// the rows, so it also suits views and joins. It is a [poll.Source].
//
// # Guarantees
//
//  1. After a poll, a cache has the rows that the query returned, whatever happened before: overlapping transactions, a TRUNCATE, or a
//     failover that lost writes. Deletions are found by comparison.
//  2. A cache at a version shows every transaction up to that version. [Query.VersionOf] returns the version of your transaction.
//     Versions of all queries of one server can be compared, but not with those of a [Table].
//  3. The version of a poll is below every transaction that was open when the poll began. So a writing transaction that stays open, in
//     any database of the server, holds versions back, as it does for a Table. It does not hold changes back: a cache may show a
//     transaction before its version says so.
//
// # Limits
//
// A Query reads all rows in every interval. It reports a change up to one interval late, and misses a row that changes and changes back
// between two polls.
//
// After a crash or a failover, the server may reuse transaction numbers. A Table detects that by a row that it has installed. A Query has
// installed nothing, and does not detect it. Guarantee 1 still holds. Versions do not go back: they stand still until the server has passed
// the lost numbers. Until then, guarantee 2 does not hold for new transactions. VersionOf returns a version that the caches have already
// reached, so a controller does not wait for its own write and may reconcile a key against the state before that write. The next poll makes
// the controller reconcile the key again. If a reconcile must not run twice on the same state, restart the processes after a failover, or
// use a Table.
//
// All methods are safe for concurrent use.
type Query[K comparable, T any] struct {
	*poll.Source[K, T]
	server queryClock
}

// queryClock identifies a server and its replicas: the system identifier, which initdb generated.
type queryClock string

// queryKind is the kind of the clock of all queries of a server.
const queryKind = "postgres query"

// NewQuery returns the source of the rows that a query returns. sql has no parameters. scan reads a row, for example pgx.RowToStructByName,
// and key returns the key of a row. cfg.Version must be nil, because NewQuery sets it. NewQuery returns an error if a field of cfg is out
// of its bounds, or if it cannot read the identity of the server.
func NewQuery[K comparable, T any](
	ctx context.Context, pool *pgxpool.Pool, sql string, scan func(pgx.CollectableRow) (T, error), key cache.KeyFunc[K, T], cfg poll.Config[T],
) (*Query[K, T], error) {
	if pool == nil || scan == nil || key == nil {
		panic("postgres: NewQuery called with a nil pool, scan, or key")
	}
	if cfg.Version != nil {
		return nil, errors.New("postgres: new query: Config.Version is set, must be nil")
	}
	cfg.Version = func(ctx context.Context) (informer.Version, error) {
		var first string
		if err := pool.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text").Scan(&first); err != nil {
			return 0, err
		}
		horizon, err := parseXID(first)
		return moment{horizon: horizon}.last(), err
	}
	var server queryClock
	if err := pool.QueryRow(ctx, "SELECT system_identifier::text FROM pg_control_system()").Scan(&server); err != nil {
		return nil, failed(ctx, "new query", err)
	}
	list := func(ctx context.Context) ([]T, error) {
		rows, err := pool.Query(ctx, sql)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, scan)
	}
	source, err := poll.New(list, key, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: new query: %w", err)
	}
	return &Query[K, T]{source, server}, nil
}

// Clock identifies the counter of the versions of q: see [Table.Clock].
func (q *Query[K, T]) Clock() reconcile.Clock { return reconcile.Clock{Kind: queryKind, DB: q.server} }

// VersionOf is [Table.VersionOf] for the queries of a server. It needs no privileges. After a crash or a failover of the server, the
// version may be one that caches have already reached: see the limits of [Query].
func (q *Query[K, T]) VersionOf(ctx context.Context, tx pgx.Tx) (informer.Version, error) {
	var text string
	err := tx.QueryRow(ctx, "SELECT pg_current_xact_id()::text").Scan(&text)
	xid := uint64(0)
	if err == nil {
		xid, err = parseXID(text)
	}
	if err != nil {
		return 0, failed(ctx, "read the version of a transaction", err)
	}
	v := moment{}.versionOf(xid)
	reconcile.ReportWrite(ctx, queryKind, q.server, uint64(v))
	return v, nil
}
