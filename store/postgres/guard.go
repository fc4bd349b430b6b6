package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// Guard makes tx a transaction of the leadership that ctx belongs to, as [sqllease.Store.Guard] does for transactions of package
// database/sql. tx must belong to the same database as leases. Call Guard before any other statement of tx.
//
// Guard returns nil if the lease still has the term of that leadership. The term then cannot change until tx ends, because a successor
// waits for tx. Otherwise Guard returns an error that wraps [sqllease.ErrFenced], and the caller must roll tx back. So tx commits before a
// successor begins, or not at all. Renewals and other guarded transactions do not wait for tx.
//
// Guard also returns that error if the leadership is over by its own clock. It returns another error if ctx belongs to no leadership, or if
// the key of the lease is not plain text: UTF-8 without NUL or backslash.
func Guard(ctx context.Context, tx pgx.Tx, leases *sqllease.Store) error {
	if leases == nil {
		panic("postgres: Guard called with nil leases")
	}
	l, ok := leaderelect.FromContext(ctx)
	if !ok {
		return errors.New("postgres: guard: the context belongs to no leadership")
	}
	about := func(err error) error {
		return fmt.Errorf("postgres: guard by %q: term %d: %w", l.Key(), l.Term(), err)
	}
	if err := l.Err(); err != nil {
		return about(fmt.Errorf("%w: %w", sqllease.ErrFenced, err))
	}
	if !utf8.ValidString(l.Key()) || strings.ContainsAny(l.Key(), "\x00\\") {
		return about(errors.New("the key is not plain text"))
	}
	if l.Term() > math.MaxInt64 {
		return about(sqllease.ErrFenced)
	}
	tag, err := tx.Exec(ctx, leases.GuardQuery(), l.Key(), int64(l.Term()))
	switch {
	case ctx.Err() != nil:
		return about(context.Cause(ctx))
	case err != nil:
		return about(err)
	case tag.RowsAffected() == 0:
		return about(sqllease.ErrFenced)
	}
	return nil
}
