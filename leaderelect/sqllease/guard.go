package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Guard makes tx a transaction of a leadership, which it takes from ctx: the context of OnStartedLeading, or one derived
// from it. Guard returns nil if the record of that leadership's lease still has its term, and keeps the term in place
// until tx ends. Otherwise Guard returns an error that wraps [ErrFenced], and the caller must roll tx back.
//
// A successor waits for tx to end. So everything that tx writes is committed before the successor begins, or not at all.
// Call Guard before any other statement of tx. tx must belong to the database of the store.
//
// Guard also refuses, with the same error, when the leadership is over by its own clock ([leaderelect.Leadership.Err]). So a
// leader of the past begins no more transactions for which its successor would have to wait.
//
// On Postgres, neither renewals nor other guarded transactions wait for tx. The role of tx needs the right to UPDATE the
// table. On SQLite there is one writer at a time: Guard waits for its turn for at most busy_timeout, and then every other
// write, including a renewal, waits for tx. Keep tx shorter than RenewDeadline, or the leader loses its lease to its own
// work.
func (s *Store) Guard(ctx context.Context, tx *sql.Tx) error {
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return fmt.Errorf("sqllease: guard: %w", errNoLeadership)
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("sqllease: guard by %q: term %d: %w: %w", l.Key(), l.Term(), ErrFenced, err)
	}
	return s.GuardTerm(ctx, tx, l.Key(), l.Term())
}

// GuardTerm is [Store.Guard] for a key and a term that did not come in ctx, for example because the leader sent them with
// a request to another service.
//
// GuardTerm looks at no clock. On Postgres, new guarded transactions do not queue behind a takeover that waits. So if those of
// one term overlap without a gap, the successor waits until they leave one: check the age of a request before GuardTerm.
func (s *Store) GuardTerm(ctx context.Context, tx *sql.Tx, key string, term uint64) error {
	if term > math.MaxInt64 {
		return fmt.Errorf("sqllease: guard by %q: term %d: %w", key, term, ErrFenced)
	}
	var one int
	err := tx.QueryRowContext(ctx, s.stmt.guard, nameOf(key), int64(term)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("term %d: %w", term, ErrFenced)
	}
	if err != nil {
		return fmt.Errorf("sqllease: guard by %q: %w", key, err)
	}
	return nil
}

// GuardQuery returns the statement of [Store.Guard], for those who do not use package database/sql. Its first parameter is
// the key, if that is valid UTF-8 without NUL and backslash, its second the term. It returns a row, or none if the term is
// over.
func (s *Store) GuardQuery() string { return s.stmt.guard }

// Transact runs f in a transaction that is guarded by the leadership of ctx, and commits it if f returns nil: see
// [Store.Guard]. It is rolled back otherwise, and when ctx ends. If the commit fails its outcome is not known.
//
// The transaction takes a connection of the pool of the store. If the work can take them all, renewals wait for it: give
// it a pool of its own, and use [Store.Guard].
func (s *Store) Transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqllease: begin: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := s.Guard(ctx, tx); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqllease: commit: %w", err)
	}
	return nil
}
