package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store/backend"
)

// queryer reads: a pool or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// Get implements [backend.Backend].
func (b *Backend) Get(ctx context.Context, kind, key string) (backend.Record, error) {
	var from queryer = b.read
	if tx := joined(ctx); tx != nil {
		from = tx
	}
	r, err := b.get(ctx, from, kind, key)
	if err != nil {
		return backend.Record{}, failed(ctx, fmt.Sprintf("get %s %q", kind, key), err)
	}
	return r, nil
}

func (b *Backend) get(ctx context.Context, from queryer, kind, key string) (r backend.Record, err error) {
	err = scan(from.QueryRowContext(ctx, b.tables.get, kind, key), key, &r)
	if errors.Is(err, sql.ErrNoRows) {
		return backend.Record{}, nil
	}
	return r, err
}

// scan reads a row of version, deleted, record.
func scan(row interface{ Scan(dest ...any) error }, key string, r *backend.Record) error {
	var version uint64
	var deleted bool
	var data []byte
	if err := row.Scan(&version, &deleted, &data); err != nil {
		return err
	}
	return decode(key, version, deleted, data, r)
}

func decode(key string, version uint64, deleted bool, data []byte, r *backend.Record) error {
	if err := r.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("the record of version %d: %w", version, err)
	}
	r.Key, r.Version, r.Deleted = key, informer.Version(version), deleted
	return nil
}

// Transact implements [backend.Backend]. A single writer reads and decides in its transaction. Concurrent writers share transactions, and
// so the flushes of the disk.
func (b *Backend) Transact(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	doing := func() string { return fmt.Sprintf("write %s %q", kind, key) }
	if tx := joined(ctx); tx != nil {
		r, _, err := b.transact(ctx, tx, kind, key, fences, decide)
		return r, refused(ctx, doing, err)
	}
	defer b.writers.Add(-1)
	if b.writers.Add(1) == 1 {
		r, err := b.alone(ctx, kind, key, fences, decide)
		return r, refused(ctx, doing, err)
	}
	r, err := b.inTurn(ctx, kind, key, fences, decide)
	return r, refused(ctx, doing, err)
}

// alone reads, decides, and writes in a transaction of its own.
func (b *Backend) alone(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	tx, err := b.begin(ctx)
	if err != nil {
		return backend.Record{}, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	r, wrote, err := b.transact(ctx, tx, kind, key, fences, decide)
	if err != nil || !wrote {
		return r, err
	}
	if err := tx.Commit(); err != nil {
		return backend.Record{}, err
	}
	b.written.Wake()
	return r, nil
}

// inTurn reads and decides without a lock, and then compares and swaps in a transaction that it shares with the other writers of this
// Backend. It retries after a lost race.
func (b *Backend) inTurn(
	ctx context.Context, kind, key string, fences []backend.Fence, decide backend.Decide,
) (backend.Record, error) {
	for {
		raised, err := b.raised(ctx, b.read, fences)
		if err != nil {
			return backend.Record{}, err
		}
		have, err := b.get(ctx, b.read, kind, key)
		if err != nil {
			return backend.Record{}, err
		}
		next, err := decide(have)
		if err != nil {
			return backend.Record{}, refusal{err}
		}
		if next == nil && len(raised) == 0 {
			return have, nil
		}
		s := &swap{kind: kind, key: key, fences: slices.Clone(fences), have: have.Version}
		if next != nil {
			// The record shares its parts with the caller, who may return.
			s.writes = true
			if s.next, err = copyOf(*next); err != nil {
				return backend.Record{}, err
			}
		}
		if err := b.turns.Do(ctx, s); err != nil {
			return backend.Record{}, err
		}
		switch {
		case s.err != nil:
			return backend.Record{}, s.err
		case s.lost:
			continue
		case next == nil:
			return have, nil
		}
		r := *next
		r.Key, r.Version = key, s.version
		return r, nil
	}
}

// swap is a write that waits for its turn.
type swap struct {
	kind, key string
	fences    []backend.Fence
	have      informer.Version // what was read
	writes    bool             // whether there is a next state, and not only terms to record
	next      backend.Record

	// The results of the last attempt.
	version informer.Version
	lost    bool // another writer has written the key, or a greater term, since
	err     error
}

func copyOf(r backend.Record) (c backend.Record, err error) {
	data, err := r.MarshalBinary()
	if err == nil {
		err = c.UnmarshalBinary(data)
	}
	return c, err
}

// commit makes swaps in one transaction. Each succeeds or fails on its own. Only an error of the database undoes them all. Then commit
// repeats each in its own transaction.
func (b *Backend) commit(ctx context.Context, tx *transaction, swaps []*swap) {
	err := b.together(ctx, tx, swaps)
	again := err != nil && len(swaps) > 1 && !errors.As(err, new(commitError)) // after that, the outcome is unknown
	for _, s := range swaps {
		if s.err = err; !again {
			continue
		}
		var own *transaction
		if own, s.err = b.begin(ctx); s.err == nil {
			s.err = b.together(ctx, own, []*swap{s})
		}
	}
}

// together makes swaps in a transaction and commits it.
func (b *Backend) together(ctx context.Context, tx *transaction, swaps []*swap) error {
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	wrote := false
	for _, s := range swaps {
		if err := b.compareAndSwap(ctx, tx, s); err != nil {
			return err
		}
		wrote = wrote || !s.lost
	}
	if !wrote {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return commitError{err}
	}
	b.written.Wake()
	return nil
}

// commitError is an error of a commit.
type commitError struct{ error }

func (e commitError) Unwrap() error { return e.error }

func (b *Backend) compareAndSwap(ctx context.Context, tx *transaction, s *swap) error {
	raised, err := b.raised(ctx, tx, s.fences)
	if errors.As(err, new(refusal)) {
		s.lost = true // the next attempt returns the error
		return nil
	}
	if err != nil {
		return err
	}
	var version informer.Version
	if err := tx.QueryRowContext(ctx, b.tables.at, s.kind, s.key).Scan(&version); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if s.lost = version != s.have; s.lost {
		return nil
	}
	if err := b.recordTerms(ctx, tx, raised); err != nil || !s.writes {
		return err
	}
	r, err := b.put(ctx, tx, s.kind, s.key, backend.Record{Version: s.have}, s.next)
	s.version = r.Version
	return err
}

// begin begins a transaction as soon as no other writing transaction is open.
func (b *Backend) begin(ctx context.Context) (tx *transaction, err error) {
	err = b.whileBusy(ctx, func() (err error) {
		tx, err = b.write.begin(ctx)
		return err
	})
	return tx, err
}

// whileBusy calls f until it returns an error other than that the file is locked, or none, for at most BusyTimeout.
func (b *Backend) whileBusy(ctx context.Context, f func() error) error {
	return whileBusy(ctx, b.cfg.BusyTimeout, f)
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
	return failed(ctx, doing(), err)
}

// transact does everything of a Transact except begin and commit.
func (b *Backend) transact(
	ctx context.Context, tx *transaction, kind, key string, fences []backend.Fence, decide backend.Decide,
) (r backend.Record, wrote bool, err error) {
	raised, err := b.raised(ctx, tx, fences)
	if err != nil {
		return r, false, err
	}
	have, err := b.get(ctx, tx, kind, key)
	if err != nil {
		return r, false, err
	}
	next, err := decide(have)
	if err != nil {
		return r, false, refusal{err}
	}
	if err := b.recordTerms(ctx, tx, raised); err != nil {
		return r, false, err
	}
	if next == nil {
		return have, len(raised) > 0, nil
	}
	r, err = b.put(ctx, tx, kind, key, have, *next)
	return r, true, err
}

// raised returns the fences whose terms are greater than the recorded ones. It returns a refusal if a term is over.
func (b *Backend) raised(ctx context.Context, from queryer, fences []backend.Fence) (raised []backend.Fence, err error) {
	for _, f := range fences {
		recorded, err := b.term(ctx, from, f.Lease)
		if err != nil {
			return nil, err
		}
		if err := f.Check(recorded); err != nil {
			return nil, refusal{err}
		}
		if f.Term > recorded {
			raised = append(raised, f)
		}
	}
	return raised, nil
}

func (b *Backend) recordTerms(ctx context.Context, tx *transaction, raised []backend.Fence) error {
	for _, f := range raised {
		term := binary.BigEndian.AppendUint64(nil, f.Term)
		if _, err := tx.ExecContext(ctx, b.tables.recordTerm, f.Lease, term); err != nil {
			return err
		}
	}
	return nil
}

// term returns the recorded term of a lease.
func (b *Backend) term(ctx context.Context, from queryer, lease string) (uint64, error) {
	var term []byte
	err := from.QueryRowContext(ctx, b.tables.term, lease).Scan(&term)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, nil
	case err != nil:
		return 0, err
	case len(term) != 8:
		return 0, fmt.Errorf("the term of lease %q has %d bytes, not 8", lease, len(term))
	}
	return binary.BigEndian.Uint64(term), nil
}

// put writes the next state of a key, and forgets a little more of the history than it adds.
func (b *Backend) put(
	ctx context.Context, tx *transaction, kind, key string, have, next backend.Record,
) (r backend.Record, err error) {
	var version, horizon int64
	if err := tx.QueryRowContext(ctx, b.tables.readState).Scan(&version, &horizon); err != nil {
		return r, err
	}
	version++
	r = next
	r.Key, r.Version = key, informer.Version(version)
	data, err := r.MarshalBinary()
	if err != nil {
		return r, err
	}
	if have.Version != 0 {
		if _, err := tx.ExecContext(ctx, b.tables.supersede, int64(have.Version)); err != nil {
			return r, err
		}
	}
	if _, err := tx.ExecContext(ctx, b.tables.insert, version, kind, key, r.Deleted, data); err != nil {
		return r, err
	}
	horizon = max(version-int64(b.cfg.History), 0)
	if _, err := tx.ExecContext(ctx, b.tables.advance, version, horizon); err != nil {
		return r, err
	}
	if horizon > 0 {
		_, err = tx.ExecContext(ctx, b.tables.trim, horizon)
	}
	return r, err
}
