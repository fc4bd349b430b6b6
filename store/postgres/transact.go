package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// statements are the queries of a schema.
type statements struct {
	channel                         string
	get, read, write, list, changes string
	few                             string
	version, lock, leap             string
}

func newStatements(schema string) statements {
	with := strings.NewReplacer("{schema}", pgx.Identifier{schema}.Sanitize()).Replace
	return statements{
		channel: channelOf(schema),
		get:     with(`SELECT version, deleted, record, value FROM {schema}.objects WHERE kind = $1 AND key = $2 AND latest`),
		// One row for the object, which may be missing, and one for each term that is recorded of the leases.
		read: with(`SELECT NULL::text, NULL::text, version, deleted, record, value FROM {schema}.objects WHERE kind = $1 AND key = $2 AND latest
			UNION ALL SELECT lease, term::text, NULL, NULL, NULL, NULL FROM {schema}.fences WHERE lease = ANY ($3)`),
		write: with(`SELECT outcome, coalesce(new_version, 0) FROM {schema}.write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`),
		list: with(`SELECT key, version, deleted, record, value FROM {schema}.objects
			WHERE kind = $1 AND latest AND key > $2 AND key >= $3 AND ($4 = '' OR left(key, length($4)) = $4) ORDER BY key LIMIT $5`),
		// The state, whether the position is lost, and the changes in one statement, which is one snapshot. LIMIT 1 makes the planner expect
		// that there is one row. A planner that expects many compiles the statement (jit), which takes 20 ms each time. The changes of that
		// one row are in order. Another ORDER BY would make the server sort them, and send nothing before the last one.
		changes: with(`SELECT s.version, s.horizon, EXISTS (SELECT FROM {schema}.gaps g WHERE $2 > g.after AND $2 < g.before), o.key, o.version, o.deleted, o.record, o.value FROM (SELECT * FROM {schema}.state LIMIT 1) s LEFT JOIN LATERAL (
				SELECT key, version, deleted, record, value FROM {schema}.objects
				WHERE kind = $1 AND version > $2 AND $2 >= s.horizon ORDER BY version LIMIT $3
			) o ON true`),
		few: with(`SELECT kind = $1 AND version > $2, key, version, deleted,
				CASE WHEN kind = $1 AND version > $2 THEN record END, CASE WHEN kind = $1 AND version > $2 THEN value END
			FROM {schema}.objects WHERE version >= $2 ORDER BY version LIMIT ` + strconv.Itoa(fewSize)),
		version: with(`SELECT version FROM {schema}.state`),
		lock:    with(`SELECT FROM {schema}.state FOR UPDATE`),
		leap: with(`WITH server AS (SELECT system_identifier AS system FROM pg_control_system()),
			gap AS (INSERT INTO {schema}.gaps SELECT s.version, s.version + ` + gapSQL + ` FROM {schema}.state s, server
				WHERE NOT EXISTS (SELECT FROM {schema}.incarnation i WHERE i.system = server.system) RETURNING before),
			emptied AS (DELETE FROM {schema}.incarnation WHERE EXISTS (SELECT FROM gap)),
			filled AS (INSERT INTO {schema}.incarnation SELECT server.system FROM server, gap)
			UPDATE {schema}.state SET version = gap.before FROM gap`),
	}
}

// queryer reads: a pool or a transaction.
type queryer interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// on returns the queryer for calls under ctx: its transaction, or the pool.
func (b *Backend) on(ctx context.Context) queryer {
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		return tx
	}
	return b.pool
}

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	r, err := b.get(ctx, kind, key)
	if err != nil {
		return backend.Record{}, failed(ctx, fmt.Sprintf("get %s %q", kind, key), err)
	}
	return r, nil
}

func (b *Backend) get(ctx context.Context, kind, key string) (backend.Record, error) {
	var row row
	err := b.on(ctx).QueryRow(ctx, b.statements.get, kind, key).Scan(row.columns()...)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return backend.Record{}, nil
	case err != nil:
		return backend.Record{}, err
	}
	return row.decode(key)
}

// row is the columns version, deleted, record, value. They are null in a row without an object.
type row struct {
	version       pgtype.Int8
	deleted       pgtype.Bool
	record, value []byte
}

func (r *row) columns() []any { return []any{&r.version, &r.deleted, &r.record, &r.value} }

// shared returns columns for a row that is decoded before the next one is read, so that the record need not be copied.
func (r *row) shared() []any {
	return []any{&r.version, &r.deleted, (*pgtype.DriverBytes)(&r.record), &r.value}
}

// there reports whether the row has an object.
func (r *row) there() bool { return r.version.Valid }

// decode returns the record of the row. The value has a column of its own, for SQL to read.
func (r *row) decode(key string) (rec backend.Record, err error) {
	if err := rec.UnmarshalBinary(r.record); err != nil {
		return rec, fmt.Errorf("the record of version %d: %w", r.version.Int64, err)
	}
	rec.Key, rec.Version, rec.Deleted, rec.Value = key, informer.Version(r.version.Int64), r.deleted.Bool, r.value
	return rec, nil
}

// Transact implements [backend.Backend]. It reads, decides, and compares and swaps, and retries after a lost race.
func (b *Backend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	for {
		have, raises, err := b.look(ctx, kind, key, fences)
		if e := new(backend.FencedError); errors.As(err, &e) {
			return backend.Record{}, err
		}
		if err != nil {
			return backend.Record{}, failed(ctx, fmt.Sprintf("write %s %q", kind, key), err)
		}
		next, err := decide(have)
		if err != nil {
			return backend.Record{}, err
		}
		if next == nil && !raises {
			return have, nil
		}
		r, written, err := b.compareAndSwap(ctx, kind, key, fences, have, next)
		if err != nil {
			return backend.Record{}, failed(ctx, fmt.Sprintf("write %s %q", kind, key), err)
		}
		if written {
			return r, nil
		}
	}
}

// look reads the record and the terms. It returns a FencedError if a term is over, and reports whether a term is greater than the recorded
// one.
func (b *Backend) look(ctx context.Context, kind, key string, fences []backend.Fence) (r backend.Record, raises bool, err error) {
	if len(fences) == 0 {
		r, err = b.get(ctx, kind, key)
		return r, false, err
	}
	leases := make([]string, len(fences))
	for i, f := range fences {
		leases[i] = f.Lease
	}
	rows, err := b.on(ctx).Query(ctx, b.statements.read, kind, key, leases)
	if err != nil {
		return r, false, err
	}
	defer rows.Close()
	recorded := make(map[string]uint64)
	for rows.Next() {
		var lease, term *string
		var object row
		if err := rows.Scan(append([]any{&lease, &term}, object.columns()...)...); err != nil {
			return r, false, err
		}
		if object.there() {
			if r, err = object.decode(key); err != nil {
				return r, false, err
			}
			continue
		}
		if recorded[*lease], err = strconv.ParseUint(*term, 10, 64); err != nil {
			return r, false, fmt.Errorf("the term of lease %q: %w", *lease, err)
		}
	}
	if err := rows.Err(); err != nil {
		return r, false, err
	}
	for _, f := range fences {
		if err := f.Check(recorded[f.Lease]); err != nil {
			return r, false, err
		}
		raises = raises || f.Term > recorded[f.Lease]
	}
	return r, raises, nil
}

// compareAndSwap writes next in place of have. It returns false if the key, or a greater term, has been written since.
func (b *Backend) compareAndSwap(
	ctx context.Context, kind, key string, fences []backend.Fence, have backend.Record, next *backend.Record,
) (r backend.Record, written bool, err error) {
	data, value := []byte{}, []byte(nil)
	if r = have; next != nil {
		r = *next
		r.Key, r.Version = key, 0            // the server assigns the version
		value = append([]byte{}, r.Value...) // nil would be null
		rest := r
		rest.Value = nil
		if data, err = rest.MarshalBinary(); err != nil {
			return r, false, err
		}
	}
	leases, terms := make([]string, len(fences)), make([]string, len(fences))
	for i, f := range fences {
		leases[i], terms[i] = f.Lease, strconv.FormatUint(f.Term, 10)
	}
	s := &swap{args: []any{
		kind, key, int64(have.Version), next != nil, r.Deleted, data, value, leases, terms, int64(b.cfg.History),
	}}
	if tx, ok := ctx.Value(txKey{}).(pgx.Tx); ok {
		err = s.scan(tx.QueryRow(ctx, b.statements.write, s.args...))
	} else if err = b.writes.Do(ctx, s); err == nil {
		err = s.err
	}
	if err != nil {
		return r, false, err
	}
	if next != nil {
		r.Version = informer.Version(s.version)
	}
	return r, s.outcome == "written", nil
}

// swap is a call of the function write. It shares no memory with the caller of Transact, who may have returned.
type swap struct {
	args    []any
	outcome string
	version int64
	err     error // of the last attempt
}

func (s *swap) scan(row pgx.Row) error { return row.Scan(&s.outcome, &s.version) }

// commit makes swaps in one transaction. Each succeeds or fails on its own. Only an error of the server undoes them all. Then commit
// repeats each in its own transaction.
func (b *Backend) commit(ctx context.Context, conn *pgxpool.Conn, swaps []*swap) {
	defer conn.Release()
	err := b.together(ctx, conn, swaps)
	for _, s := range swaps {
		if e := new(pgconn.PgError); len(swaps) > 1 && errors.As(err, &e) && e.SeverityUnlocalized == "ERROR" {
			s.err = b.together(ctx, conn, []*swap{s})
		} else {
			s.err = err
		}
	}
}

// together makes swaps in one round trip, which is one transaction. At any other level of isolation, a swap would not see the version that the
// transaction before it has written.
func (b *Backend) together(ctx context.Context, conn *pgxpool.Conn, swaps []*swap) error {
	batch := new(pgx.Batch)
	batch.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	for _, s := range swaps {
		batch.Queue(b.statements.write, s.args...).QueryRow(s.scan)
	}
	batch.Queue("COMMIT")
	err := conn.SendBatch(ctx, batch).Close() // it has committed when Close returns
	if err != nil && conn.Conn().PgConn().TxStatus() == 'E' {
		_, _ = conn.Exec(ctx, "ROLLBACK") // if it fails, the pool closes the connection
	}
	return err
}
