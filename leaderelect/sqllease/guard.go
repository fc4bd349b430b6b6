package sqllease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// Guard guards tx by the leadership of ctx, which is the context of OnStartedLeading or one derived from it. If the
// record of the lease still has the term of that leadership, Guard returns nil, and the term cannot change until tx ends.
// Otherwise the error wraps [ErrFenced], and the caller must roll tx back. It is also an error if ctx belongs to no leadership.
//
// A successor waits for tx to end. So tx commits before the successor begins, or not at all. Call Guard before any other
// statement of tx. tx must belong to the database of the store.
//
// Guard also returns ErrFenced if the leadership is over by its own clock ([leaderelect.Leadership.Err]). So an earlier
// leader cannot begin transactions for which its successor would have to wait.
//
// On Postgres, MySQL, and MariaDB, neither renewals nor other guarded transactions wait for tx. On Postgres, the role of tx
// needs the privilege to UPDATE the table. On SQLite, there is one writer at a time. Guard waits for at most busy_timeout, and [Store.Transact] until ctx
// ends. Then every other write, including a renewal, waits for tx. Keep tx shorter than RenewDeadline, or the leader's own
// work costs it the lease.
//
// # How it works
//
// In Postgres, the guard is a statement that also works without this package:
//
//	SELECT 1 FROM leases WHERE name = 'shop-controller' AND term = 7 FOR KEY SHARE
//
// If it returns no row, the term is over. If it returns a row, a takeover waits until the transaction ends: it changes a
// column of the unique index (name, term), so it needs a row lock that conflicts with FOR KEY SHARE. Renewals change no
// such column and do not wait. FOR SHARE would delay the leader's own renewals. A foreign key on (name, term) takes the
// same lock as the guard.
//
// In MySQL and MariaDB, the guard locks an entry of the unique index (name, term), in any isolation level:
//
//	SELECT 1 FROM leases IGNORE INDEX (PRIMARY) WHERE name = 'shop-controller' AND term = 7 LOCK IN SHARE MODE
//
// All that it reads is in that index, so InnoDB shares a lock of the entry and none of the row. A takeover replaces the entry,
// and waits. A renewal locks the row and leaves the entry. Through the primary key, the guard would delay renewals. A guard that
// is called later than first in a transaction also reads the present, but the plain reads of REPEATABLE READ do not.
//
// In SQLite, one transaction writes at a time. The guard is an UPDATE that changes nothing, so the transaction has the
// write lock before it compares the term.
//
// The guard is mutual exclusion, not only detection, and needs no clock. It costs one round trip per transaction. A
// leader that hangs in the middle of a guarded transaction, with its connection open, delays its successor: see
// idle_in_transaction_session_timeout and idle_transaction_timeout at [Store]. A release keeps the term. So a transaction with [Store.GuardTerm] may write
// until another leader takes over. [Store.Guard] and [Store.Transact] begin no transaction after the leadership is over.
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

// GuardTerm is [Store.Guard] with an explicit key and term, for example if the leader has sent them with a request to
// another service.
//
// GuardTerm does not read the clock. On Postgres (not on MySQL and MariaDB), new guarded transactions do not queue behind a takeover that waits. If
// transactions of one term overlap without a gap, the successor waits until there is one. So check the age of a request
// before GuardTerm.
func (s *Store) GuardTerm(ctx context.Context, tx *sql.Tx, key string, term uint64) error {
	if term > math.MaxInt64 {
		return fmt.Errorf("sqllease: guard by %q: term %d: %w", key, term, ErrFenced)
	}
	name, err := s.name(key)
	if err != nil {
		return fmt.Errorf("sqllease: guard by %q: %w", key, err)
	}
	var one int
	err = tx.QueryRowContext(ctx, s.stmt.guard, name, int64(term)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("term %d: %w", term, ErrFenced)
	}
	if err != nil {
		return fmt.Errorf("sqllease: guard by %q: %w", key, err)
	}
	return nil
}

// GuardQuery returns the statement of [Store.Guard], for programs that do not use package database/sql. Its parameters
// are the key and the term. The key must be valid UTF-8 without NUL and backslash. The statement returns one row, or none
// if the term is over.
func (s *Store) GuardQuery() string { return s.stmt.guard }

// Transact runs f in a transaction that is guarded by the leadership of ctx: see [Store.Guard]. It commits the
// transaction if f returns nil. Otherwise, or if ctx ends, it rolls the transaction back, and returns the error of f as it
// is. If the commit fails, its outcome is unknown. f must return the error of each statement that fails, because a deadlock ends
// the transaction and the guard in MySQL and MariaDB, but not in tx.
//
// The transaction uses a connection of the store's pool. If the work can use all of them, renewals wait. In that case,
// give the work its own pool and use [Store.Guard].
func (s *Store) Transact(ctx context.Context, f func(tx *sql.Tx) error) error {
	var tx *sql.Tx
	err := s.whileBusy(ctx, func() (err error) {
		tx, err = s.db.BeginTx(ctx, nil) // finds the file locked if the driver begins with BEGIN IMMEDIATE
		if err != nil {
			return fmt.Errorf("sqllease: begin: %w", err)
		}
		if err = s.Guard(ctx, tx); err != nil {
			_ = tx.Rollback() // a deadlock has ended it on MySQL: whatever came next would be on its own
		}
		return err
	})
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("sqllease: commit: %w", err)
	}
	return nil
}
