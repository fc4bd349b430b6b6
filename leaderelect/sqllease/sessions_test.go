package sqllease_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// onLocks runs f in a bubble, with a server and sessions on it: once for each dialect.
func onLocks(t *testing.T, f func(t *testing.T, server *locks, db *sql.DB, s *sqllease.Sessions)) {
	for _, dialect := range []sqllease.Dialect{sqllease.Postgres, sqllease.MySQL} {
		t.Run(dialect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, db := openLocks(t)
				s, err := sqllease.NewSessions(db, sqllease.SessionsConfig{Dialect: dialect})
				require.NoError(t, err)
				f(t, server, db, s)
			})
		})
	}
}

// hold has a session held. The channel gets the end of it.
func hold(ctx context.Context, s *sqllease.Sessions, session string) <-chan error {
	end := make(chan error, 1)
	go func() { end <- s.Hold(ctx, session, func() {}) }() // ends with ctx, or as the test wants it
	synctest.Wait()
	return end
}

// pending reports whether a call has not returned.
func pending(c <-chan error) bool {
	synctest.Wait()
	return len(c) == 0
}

func TestSessionEndsWithHoldersConnection(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, _ *sql.DB, s *sqllease.Sessions) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.NoError(t, s.AwaitEnd(ctx, "a"), "no process holds it")
		end := hold(ctx, s, "a")
		require.ErrorContains(t, s.Hold(ctx, "a", func() { t.Error("it is held twice") }), "another connection has its lock")
		require.NoError(t, s.AwaitEnd(ctx, "b"), "it has a lock of its own")

		gone := make(chan error, 2)
		for range cap(gone) {
			go func() { gone <- s.AwaitEnd(ctx, "a") }() // ends with the session
		}
		time.Sleep(150 * time.Second)
		require.True(t, pending(gone), "it is held")
		_, _, waits := server.counts()
		assert.Equal(t, 2+2*3, waits, "each is begun again once in a minute")
		require.True(t, pending(end))
		cut := time.Now()
		server.cut()
		require.NoError(t, <-gone)
		require.NoError(t, <-gone)
		assert.Equal(t, cut, time.Now(), "at once")
		require.ErrorContains(t, <-end, `sqllease: hold session "a": `)
		assert.LessOrEqual(t, time.Since(cut), time.Second, "the holder learns it when it checks")
	})
}

func TestSessionEndsWithContextAndIsNotReused(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, _ *sql.DB, s *sqllease.Sessions) {
		ctx, cancel := context.WithCancelCause(t.Context())
		end := hold(ctx, s, "a")
		open, held, _ := server.counts()
		require.Equal(t, []int{1, 1}, []int{open, held})
		cancel(errNetwork)
		require.ErrorIs(t, <-end, errNetwork)
		open, held, _ = server.counts()
		require.Equal(t, []int{0, 0}, []int{open, held})
		require.NoError(t, s.AwaitEnd(t.Context(), "a"))
	})
}

func TestWaitForSessionContinuesAfterLimitOfFastClock(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, _ *sql.DB, s *sqllease.Sessions) {
		server.limit = 50 * time.Second // a minute of the server, whose clock is fast
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hold(ctx, s, "a")
		gone := make(chan error, 1)
		go func() { gone <- s.AwaitEnd(t.Context(), "a") }() // ends with the session
		time.Sleep(time.Hour)
		require.True(t, pending(gone), "a connection holds the session")
		cancel()
		require.NoError(t, <-gone)
	})
}

func TestWaitForSessionEndsWithContext(t *testing.T) {
	onLocks(t, func(t *testing.T, _ *locks, _ *sql.DB, s *sqllease.Sessions) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hold(ctx, s, "a")
		short, stop := context.WithTimeout(ctx, 90*time.Second)
		defer stop()
		begin := time.Now()
		require.ErrorIs(t, s.AwaitEnd(short, "a"), context.DeadlineExceeded)
		require.Equal(t, 90*time.Second, time.Since(begin))
	})
}

func TestStandbyIsNotQueriedForSessions(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, db *sql.DB, s *sqllease.Sessions) {
		server.is(func() { server.standby = true })
		require.ErrorContains(t, s.Hold(t.Context(), "a", func() { t.Error("it is held") }), "standby")
		require.ErrorContains(t, s.AwaitEnd(t.Context(), "a"), "standby")
	})
}

func TestTransactionPoolerIsDetected(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, _ *sql.DB, s *sqllease.Sessions) {
		end := hold(t.Context(), s, "a")
		server.is(func() { server.pooled = true })
		require.ErrorContains(t, <-end, "is a pooler in between?")
	})
}

func TestServerErrorDoesNotEndSession(t *testing.T) {
	onLocks(t, func(t *testing.T, server *locks, db *sql.DB, s *sqllease.Sessions) {
		server.slow = func(string) error { return errNetwork }
		require.ErrorIs(t, s.Hold(t.Context(), "a", func() { t.Error("it is held") }), errNetwork)
		require.ErrorIs(t, s.AwaitEnd(t.Context(), "a"), errNetwork)
		server.slow = nil
		require.NoError(t, db.Close())
		require.Error(t, s.Hold(t.Context(), "a", func() { t.Error("it is held") }))
		require.Error(t, s.AwaitEnd(t.Context(), "a"))
	})
}

func TestNewSessionsPanicsWithoutDatabase(t *testing.T) {
	require.PanicsWithValue(t, "sqllease: NewSessions: the database is nil", func() {
		_, _ = sqllease.NewSessions(nil, sqllease.SessionsConfig{})
	})
}

func TestSessionsConfigErrorsNameTheField(t *testing.T) {
	_, err := sqllease.NewSessions(new(sql.DB), sqllease.SessionsConfig{CheckPeriod: -1})
	require.ErrorContains(t, err, "sqllease: new sessions: SessionsConfig.CheckPeriod is -1ns, must not be negative")
	_, err = sqllease.NewSessions(new(sql.DB), sqllease.SessionsConfig{Dialect: sqllease.SQLite})
	require.ErrorContains(t, err, "sqllease: new sessions: SessionsConfig.Dialect is SQLite, must be Postgres or MySQL")
	_, err = sqllease.NewSessions(new(sql.DB), sqllease.SessionsConfig{})
	require.NoError(t, errors.Join(err))
}
