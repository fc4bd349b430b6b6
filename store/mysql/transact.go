package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/rowscan"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql/internal/usertable"
	"github.com/setpoint-go/setpoint/wait"
)

// conn is what statements of a Backend run on: a pool, a connection, or a transaction.
type conn interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// forUpdate makes a query lock what it reads, and read the present, where a plain one may read the snapshot of its transaction.
const forUpdate = " FOR UPDATE"

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	var on conn = b.db
	if tx := joined(ctx); tx != nil {
		on = tx
	}
	r, err := b.get(ctx, on, kind, key, "")
	if err != nil {
		return backend.Record{}, failedCall(ctx, fmt.Sprintf("get %s %q", kind, key), err)
	}
	return r, nil
}

func (b *Backend) get(ctx context.Context, on conn, kind, key, locking string) (r backend.Record, err error) {
	var object object
	err = on.QueryRowContext(ctx, fmt.Sprintf(b.tables.get, bytesSQL(kind), bytesSQL(key))+locking).Scan(object.columns()...)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return backend.Record{}, nil
	case err != nil:
		return backend.Record{}, err
	}
	return object.decode(key)
}

// object is the columns version, deleted, record, value. They are null in a row without an object.
type object struct {
	version       sql.NullInt64
	deleted       sql.NullBool
	record, value []byte
}

func (o *object) columns() []any { return []any{&o.version, &o.deleted, &o.record, &o.value} }

// shared returns columns for a row that is decoded before the next one is read.
func (o *object) shared() []any {
	return []any{&o.version, &o.deleted, (*sql.RawBytes)(&o.record), (*sql.RawBytes)(&o.value)}
}

// decode returns the record of the row. The value has a column of its own, for SQL to read.
func (o *object) decode(key string) (r backend.Record, err error) {
	if err := r.UnmarshalBinary(o.record); err != nil {
		return r, fmt.Errorf("the record of version %d: %w", o.version.Int64, err)
	}
	r.Key, r.Version, r.Deleted = key, informer.Version(o.version.Int64), o.deleted.Bool
	r.Value = slices.Clone(o.value)
	return r, nil
}

// Transact implements [backend.Backend]. It reads and decides without a lock, and then compares and swaps in a transaction that it shares with
// the concurrent writes of this Backend. It retries after a lost race.
func (b *Backend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	doing := func() string { return fmt.Sprintf("write %s %q", kind, key) }
	if err := checkNames(kind, key, fences); err != nil {
		return backend.Record{}, refused(ctx, doing, err)
	}
	if tx := joined(ctx); tx != nil {
		r, err := b.join(ctx, tx, kind, key, fences, decide)
		return r, refused(ctx, doing, err)
	}
	for {
		s, err := b.decide(ctx, b.db, kind, key, fences, decide, "")
		if err != nil || s.isEmpty() {
			return s.have, refused(ctx, doing, err)
		}
		if err = b.writes.Do(ctx, s); err == nil {
			err = s.err
		}
		if err != nil {
			return backend.Record{}, refused(ctx, doing, err)
		}
		if !s.lost {
			return s.result(), nil
		}
	}
}

// checkNames returns an error if a name is too long for its column. Unless sql_mode is strict, the server would cut it off.
func checkNames(kind, key string, fences []backend.Fence) error {
	if len(kind) > backend.MaxKind || len(key) > backend.MaxKey {
		return fmt.Errorf("the kind has %d bytes and the key %d, must not have more than %d and %d", len(kind), len(key), backend.MaxKind, backend.MaxKey)
	}
	for _, f := range fences {
		if len(f.Lease) > backend.MaxKey {
			return fmt.Errorf("the name of the lease has %d bytes, must not have more than %d", len(f.Lease), backend.MaxKey)
		}
	}
	return nil
}

// join does the same in a transaction of the caller, which holds the lock from then on.
func (b *Backend) join(
	ctx context.Context, tx *sql.Tx, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	at, err := b.lock(ctx, tx)
	if err != nil {
		return backend.Record{}, err
	}
	s, err := b.decide(ctx, tx, kind, key, fences, decide, forUpdate)
	if err != nil || s.isEmpty() {
		return s.have, err
	}
	if err := b.write(ctx, tx, at, []*swap{s}, s.raised); err != nil {
		return backend.Record{}, err
	}
	return s.result(), nil
}

// swap is a write that waits for its turn. It shares no memory with the caller of Transact, who may have returned.
type swap struct {
	kind, key   string
	fences      []backend.Fence
	have        backend.Record    // what was read
	raised      map[string]uint64 // the fences whose terms are greater than the recorded ones
	next        *backend.Record   // nil if there is nothing to write but terms; only the caller of Transact reads what it points to
	deleted     bool
	data, value []byte // of next

	// The results of the last attempt.
	version informer.Version
	lost    bool // another writer has written the key, or a greater term, since
	err     error
}

// isEmpty reports whether there is nothing to write.
func (s *swap) isEmpty() bool { return s.next == nil && len(s.raised) == 0 }

// result returns the record as it is after the write.
func (s *swap) result() backend.Record {
	if s.next == nil {
		return s.have
	}
	r := *s.next
	r.Key, r.Version = s.key, s.version
	return r
}

// decide reads a record and the terms of the fences, and decides. The record is read first: terms only grow, so those that are not over
// afterward were not over then.
func (b *Backend) decide(
	ctx context.Context, on conn, kind, key string, fences []backend.Fence, decide backend.Decide, locking string,
) (*swap, error) {
	s := &swap{kind: kind, key: key, fences: slices.Clone(fences)}
	have, err := b.get(ctx, on, kind, key, locking)
	if err != nil {
		return s, err
	}
	recorded, err := b.terms(ctx, on, []*swap{s}, locking)
	if err != nil {
		return s, err
	}
	if s.raised, err = raised(fences, recorded); err != nil {
		return s, refusal{err}
	}
	if s.next, err = decide(have); err != nil {
		return s, refusal{err}
	}
	s.have = have
	if s.next == nil {
		return s, nil
	}
	s.deleted = s.next.Deleted
	s.value = slices.Clone(s.next.Value)
	rest := *s.next
	rest.Key, rest.Version, rest.Value = key, 0, nil // the version is assigned later
	s.data, err = rest.MarshalBinary()
	return s, err
}

// raised returns the fences whose terms are greater than the recorded ones. It returns a FencedError if a term is over.
func raised(fences []backend.Fence, recorded map[string]uint64) (raised map[string]uint64, err error) {
	raised = make(map[string]uint64)
	for _, f := range fences {
		if err := f.Check(recorded[f.Lease]); err != nil {
			return nil, err
		}
		if f.Term > recorded[f.Lease] {
			raised[f.Lease] = f.Term
		}
	}
	return raised, nil
}

// terms returns the recorded terms of the leases of swaps.
func (b *Backend) terms(ctx context.Context, on conn, swaps []*swap, locking string) (map[string]uint64, error) {
	var leases []string
	for _, s := range swaps {
		for _, f := range s.fences {
			leases = append(leases, bytesSQL(f.Lease))
		}
	}
	if len(leases) == 0 {
		return nil, nil
	}
	recorded := make(map[string]uint64)
	rows, err := on.QueryContext(ctx, fmt.Sprintf(b.tables.terms, strings.Join(leases, ", "))+locking)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err has the error
	for rows.Next() {
		var lease string
		var term uint64
		if err := rows.Scan(&lease, &term); err != nil {
			return nil, err
		}
		recorded[lease] = term
	}
	return recorded, rows.Err()
}

// A version is a number and a random number. Numbers ascend by one, or to the time of the server if that is more: in 4096ths of a second since the
// beginning of 2025. So if the server loses its last commits, in a crash, a restore, or a failover to a replica that lagged, the next versions are
// greater than the lost ones, unless its clock went back, or the lost numbers were ahead of it after more than 4,096 writes per second. Then the
// random number still tells a lost version from the one that has its number now. Until 2093, versions have at most 53 bits, which JavaScript keeps.
const (
	ticksSQL   = "TIMESTAMPDIFF(MICROSECOND, '2025-01-01', UTC_TIMESTAMP(6)) * 64 DIV 15625"
	chanceBits = 10
)

// position is the row of the table state, and the time.
type position struct{ version, horizon, count, ticks int64 }

// lock locks the row of the table state, and returns it. No other transaction of any process writes the tables until this one has ended. So
// versions are in commit order: each is assigned under the lock, and is greater than that of every transaction that had the lock before.
func (b *Backend) lock(ctx context.Context, on conn) (at position, err error) {
	err = on.QueryRowContext(ctx, b.tables.lock).Scan(&at.version, &at.horizon, &at.count, &at.ticks)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("the table %s has no row", b.tables.names[stateTable])
	}
	return at, err
}

// next returns the version of the next change.
func (at position) next() int64 {
	return max(at.version>>chanceBits+1, at.ticks)<<chanceBits | rand.Int64N(1<<chanceBits)
}

// turn is a transaction that has the lock. It has a connection out of the pool: [sql.Tx] would not end a commit with its context.
type turn struct {
	*sql.Conn
	at position
}

// begin begins a transaction, and waits until it has the lock.
func (b *Backend) begin(ctx context.Context) (t turn, err error) {
	err = whileBusy(ctx, func() (err error) {
		if t.Conn, err = start(ctx, b.db, "START TRANSACTION READ WRITE"); err != nil {
			return err
		}
		if t.at, err = b.lock(ctx, t); err != nil {
			_ = usertable.Session{Conn: t.Conn}.Close() // the server rolls back
		}
		return err
	})
	return t, err
}

// start takes a connection out of the pool and begins a transaction on it.
func start(ctx context.Context, db *sql.DB, statements ...string) (*sql.Conn, error) {
	for {
		c, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		for _, text := range statements {
			if _, err = c.ExecContext(ctx, text); err != nil {
				_ = usertable.Session{Conn: c}.Close()
				break
			}
		}
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, driver.ErrBadConn) { // which an idle connection has that the server has closed
			return nil, err
		}
	}
}

// whileBusy calls f until it returns an error other than that the server has undone its statements because of the locks of others, or none.
func whileBusy(ctx context.Context, f func() error) error {
	backoff := wait.Backoff{Duration: 100 * time.Microsecond, Factor: 2, Jitter: 1, Cap: 5 * time.Millisecond}
	var last error
	err := retry.OnError(ctx, backoff, isBusy, func(context.Context) error {
		last = f()
		return last
	})
	if err != nil && ctx.Err() != nil {
		return cmp.Or(last, err)
	}
	return err
}

func isBusy(err error) bool { return isNumber(err, lockWait, deadlock) }

// commit makes swaps in one transaction. Each succeeds or fails on its own. Only an error of the server undoes them all. Then commit repeats
// each in its own transaction.
func (b *Backend) commit(ctx context.Context, t turn, swaps []*swap) {
	err := b.together(ctx, t, swaps)
	again := err != nil && len(swaps) > 1 && isUndone(err)
	for _, s := range swaps {
		if s.err = err; again || isBusy(err) {
			s.err = whileBusy(ctx, func() error {
				own, err := b.begin(ctx)
				if err == nil {
					err = b.together(ctx, own, []*swap{s})
				}
				return err
			})
		}
	}
}

// isUndone reports whether err is one after which the server has not committed the transaction, and never will. After a lost connection, or an
// error of the commit, the outcome is unknown, except that a deadlock undoes the transaction at any time.
func isUndone(err error) bool {
	return errors.As(err, new(*mysql.MySQLError)) && (!errors.As(err, new(commitError)) || isBusy(err))
}

// commitError is an error of a commit.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

// together makes swaps in a transaction and commits it.
func (b *Backend) together(ctx context.Context, t turn, swaps []*swap) (err error) {
	defer func() {
		if err != nil {
			_ = usertable.Session{Conn: t.Conn}.Close() // the server rolls back
			return
		}
		_ = t.Close() // it returns to the pool
	}()
	raised, err := b.compare(ctx, t, swaps)
	if err != nil {
		return err
	}
	wins := slices.DeleteFunc(slices.Clone(swaps), func(s *swap) bool { return s.lost })
	if len(wins) == 0 {
		_, err = t.ExecContext(ctx, "ROLLBACK")
		return err
	}
	if err := b.write(ctx, t, t.at, wins, raised); err != nil {
		return err
	}
	if b.committing != nil {
		b.committing()
	}
	if _, err := t.ExecContext(ctx, "COMMIT"); err != nil {
		return commitError{err}
	}
	b.written.Wake()
	return nil
}

// name is a key of a kind.
type name struct{ kind, key string }

// compare finds out which swaps are lost, and returns the terms that the others raise.
func (b *Backend) compare(ctx context.Context, on conn, swaps []*swap) (all map[string]uint64, err error) {
	if len(swaps) == 0 {
		return nil, nil
	}
	conditions := make([]string, len(swaps))
	for i, s := range swaps {
		conditions[i] = fmt.Sprintf("kind = %s AND `key` = %s", bytesSQL(s.kind), bytesSQL(s.key))
	}
	type present struct {
		name
		version informer.Version
	}
	rows, err := rowscan.All(ctx, on, func(rows *sql.Rows, p *present) error { return rows.Scan(&p.kind, &p.key, &p.version) },
		fmt.Sprintf(b.tables.present, strings.Join(conditions, " OR ")))
	if err != nil {
		return nil, err
	}
	versions := make(map[name]informer.Version)
	for _, p := range rows {
		versions[p.name] = p.version
	}
	recorded, err := b.terms(ctx, on, swaps, forUpdate)
	if err != nil {
		return nil, err
	}
	all = make(map[string]uint64)
	written := make(map[name]bool) // by an earlier swap of this transaction
	for _, s := range swaps {
		of := name{s.kind, s.key}
		raised, err := raised(s.fences, recorded)
		if s.lost = err != nil || written[of] || versions[of] != s.have.Version; s.lost { // the next attempt returns the error
			continue
		}
		for lease, term := range raised {
			recorded[lease], all[lease] = term, term
		}
		written[of] = s.next != nil
	}
	return all, nil
}

const (
	insertMax  = 1 << 20 // bytes of a statement that writes several records
	trimWrites = 64      // writes between two trims, at most
	trimFactor = 8       // how many changes a trim removes for each write
)

// write writes swaps, none of which is lost, and terms, in a transaction that has the lock. It forgets more of the history than it adds.
func (b *Backend) write(ctx context.Context, on conn, at position, swaps []*swap, terms map[string]uint64) error {
	do := func(text string) error {
		_, err := on.ExecContext(ctx, text)
		return err
	}
	if len(terms) > 0 {
		var values []string
		for _, lease := range slices.Sorted(maps.Keys(terms)) {
			values = append(values, fmt.Sprintf("(%s, %d)", bytesSQL(lease), terms[lease]))
		}
		if err := do(b.tables.recordTerms + strings.Join(values, ", ")); err != nil {
			return err
		}
	}
	before := at.count
	var first informer.Version
	var values []string
	for _, s := range swaps {
		if s.next == nil {
			continue
		}
		at.version = at.next()
		at.count++
		s.version = informer.Version(at.version)
		first = cmp.Or(first, s.version)
		deleted := 0
		if s.deleted {
			deleted = 1
		}
		values = append(values, fmt.Sprintf("(%s, %s, %d, %d, %s, %s, %d)",
			bytesSQL(s.kind), bytesSQL(s.key), s.version, deleted, bytesSQL(s.data), bytesSQL(s.value), at.count))
	}
	if at.count == before {
		return nil
	}
	for len(values) > 0 {
		size, some := 0, 0
		for some == 0 || some < len(values) && size+len(values[some]) < insertMax {
			size += len(values[some])
			some++
		}
		if err := do(b.tables.insert + strings.Join(values[:some], ", ")); err != nil {
			return err
		}
		values = values[some:]
	}
	if err := do(fmt.Sprintf(b.tables.apply, first, at.version)); err != nil {
		return err
	}
	history := int64(b.cfg.History)
	if period := min(max(history/16, 1), trimWrites); before/period != at.count/period && at.count > history {
		// The horizon is the version of a change that is there, so that a watch can start from it.
		var oldest, horizon sql.NullInt64
		if err := on.QueryRowContext(ctx, fmt.Sprintf(b.tables.ends, at.count-history)).Scan(&oldest, &horizon); err != nil {
			return err
		}
		at.horizon = max(at.horizon, horizon.Int64)
		end := min(at.count-history, oldest.Int64+trimFactor*max(period, at.count-before))
		for _, text := range []string{b.tables.tombstones, b.tables.forget} {
			if err := do(fmt.Sprintf(text, end)); err != nil {
				return err
			}
		}
	}
	return do(fmt.Sprintf(b.tables.advance, at.version, at.horizon, at.count))
}

// refusal is an error of decide or of a fence. Transact returns it unchanged.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func refused(ctx context.Context, doing func() string, err error) error {
	var r refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		return r.error
	}
	return failedCall(ctx, doing(), err)
}
