package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// leading runs f as the work of a leader of the lease "lease" in s.
func leading(t *testing.T, s leaderelect.LeaseStore, f func(ctx context.Context)) {
	t.Helper()
	elector, err := leaderelect.New(leaderelect.Config{
		Store: s, Key: "lease", Identity: "test", Logger: slog.New(slog.DiscardHandler),
		OnStartedLeading: func(ctx context.Context, _ *leaderelect.Leadership) error { f(ctx); return nil },
	})
	require.NoError(t, err)
	require.NoError(t, elector.RunOnce(context.Background()))
}

func TestOnlyCurrentLeadersTransactionCommits(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	var past context.Context
	leading(t, s, func(ctx context.Context) {
		past = context.WithoutCancel(ctx)
		server.log = nil
		require.NoError(t, s.Transact(ctx, func(*sql.Tx) error { return nil }))
		assert.Equal(t, []string{s.GuardQuery(), "COMMIT"}, server.log)

		server.log = nil
		mine := errors.New("mine")
		require.Equal(t, mine, s.Transact(ctx, func(*sql.Tx) error { return mine }))
		assert.Equal(t, []string{s.GuardQuery(), "ROLLBACK"}, server.log)

		server.before = func(query string) error {
			if query == "COMMIT" {
				return errNetwork
			}
			return nil
		}
		require.ErrorIs(t, s.Transact(ctx, func(*sql.Tx) error { return nil }), errNetwork)
		server.before = func(string) error { return errNetwork }
		err := s.Transact(ctx, func(*sql.Tx) error { t.Error("f is called without a guard"); return nil })
		require.ErrorIs(t, err, errNetwork)
		require.NotErrorIs(t, err, sqllease.ErrFenced)
		server.before = nil
	})
	server.log = nil
	err := s.Transact(past, func(*sql.Tx) error { t.Error("f is called after the leadership ended"); return nil })
	require.ErrorIs(t, err, sqllease.ErrFenced)
	require.ErrorIs(t, err, leaderelect.ErrTermEnded)
	assert.Equal(t, []string{"ROLLBACK"}, server.log, "by its own clock")

}

func TestReplacedLeaderCannotUseTermOfAnotherLease(t *testing.T) {
	server, s := newStore(t, sqllease.Config{})
	_, err := s.Create(t.Context(), leaderelect.Entry{Key: "another lease", Term: 1})
	require.NoError(t, err)
	leading(t, s, func(ctx context.Context) {
		require.NoError(t, s.Transact(ctx, func(*sql.Tx) error { return nil }))
		e, err := s.Get(ctx, "lease")
		require.NoError(t, err)
		e.Term = 2
		_, err = s.Update(ctx, e)
		require.NoError(t, err)
		server.log = nil
		err = s.Transact(ctx, func(*sql.Tx) error { t.Error("f is called"); return nil })
		require.ErrorIs(t, err, sqllease.ErrFenced)
		assert.EqualError(t, err, `sqllease: guard by "lease": term 1: term is over`)
		assert.Equal(t, []string{s.GuardQuery(), "ROLLBACK"}, server.log)
	})
}

func TestGuardRequiresLeadership(t *testing.T) {
	_, s := newStore(t, sqllease.Config{})
	err := s.Transact(context.Background(), nil)
	require.EqualError(t, err, `sqllease: guard: the context belongs to no leadership`)
	assert.NotErrorIs(t, err, sqllease.ErrFenced)
	require.ErrorIs(t, s.GuardTerm(context.Background(), nil, "lease", math.MaxUint64), sqllease.ErrFenced)
}
