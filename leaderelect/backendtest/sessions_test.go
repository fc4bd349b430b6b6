//go:build linux

package backendtest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect/sqllease"
)

// earlyRounds is how often the leader is killed.
const earlyRounds = 20

// awaitCount waits until a query returns n.
func awaitCount(t testing.TB, db *sql.DB, n int, query string) {
	t.Helper()
	for end, have := time.Now().Add(patience), -1; have != n; time.Sleep(time.Millisecond) {
		require.NoError(t, db.QueryRow(query).Scan(&have))
		require.True(t, time.Now().Before(end), "%d instead of %d: %s", have, n, query)
	}
}

const (
	waiting = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`
	holding = `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted`
)

func TestPostgresSessions(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	direct := openPostgres(t, "pgx", server.Addr())
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run("by "+driver, func(t *testing.T) {
			db := openPostgres(t, driver, server.Addr())
			s, err := sqllease.NewSessions(db, sqllease.SessionsConfig{CheckPeriod: 50 * time.Millisecond})
			require.NoError(t, err)
			hold := func(ctx context.Context) <-chan error {
				held, end := make(chan struct{}), make(chan error, 1)
				go func() { end <- s.Hold(ctx, "a", func() { close(held) }) }() // the test waits for its end
				<-held
				return end
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel() // also when the test fails, or the next one waits for the session
			end := hold(ctx)
			require.ErrorContains(t, s.Hold(ctx, "a", func() { t.Error("it is held twice") }), "another connection has its lock")
			short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
			defer stop()
			require.Error(t, s.AwaitEnd(short, "a"))
			require.NoError(t, s.AwaitEnd(ctx, "b"))

			gone := make(chan error, 2)
			for range cap(gone) {
				go func() { gone <- s.AwaitEnd(context.Background(), "a") }() // the test waits for its end
			}
			awaitCount(t, direct, 2, waiting)
			cancel()
			require.ErrorIs(t, <-end, context.Canceled)
			require.NoError(t, <-gone)
			require.NoError(t, <-gone)
			awaitCount(t, direct, 0, holding)

			end = hold(context.Background())
			_, err = direct.Exec(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'`)
			require.NoError(t, err)
			require.Error(t, <-end, "its session has ended")
			require.NoError(t, s.AwaitEnd(context.Background(), "a"))
		})
	}
}

// TestEarlyTakeover kills leaders, and counts the time until the next one acts. Then it has one replaced that lives, and
// sees that it does nothing any more.
func TestEarlyTakeover(t *testing.T) {
	t.Parallel()
	w := postgresWorld(t)
	w.t, w.name, w.backend, w.lease, w.early = t, "postgres", "postgres", 6*time.Second, true
	db := openPostgres(t, "pgx", w.server.Addr())
	w.addr, w.proxies = w.server.Addr(), nil
	w.begin()
	leader := w.awaitLeader("a first leader")
	var took []time.Duration
	for range earlyRounds {
		awaitCount(t, db, candidates-1, waiting)
		from, last := now(), leader
		w.kill(leader.node)
		w.awaitTerm(leader.node)
		first, ok := w.firstAfter(last.term, from)
		require.True(t, ok)
		took = append(took, first-from)
		w.spawn(leader.node.slot)
		leader = w.awaitLeader("a leader after a kill")
		require.Equal(t, last.term+1, leader.term)
	}
	slices.Sort(took)
	t.Logf("kill -9 of the leader, lease %v: the new one acts after p50 %v, max %v (n=%d)", w.lease,
		took[len(took)/2].Round(100*time.Microsecond), took[len(took)-1].Round(100*time.Microsecond), len(took))
	assert.Less(t, took[len(took)-1], w.lease/4, "no follower has waited for a lease")

	refused := 0
	for range 5 { // one that is stopped in a transaction is not replaced before that has ended, and then it is told at once
		refused += w.replaceAlive(db)
		if refused > 0 {
			break
		}
	}
	for _, n := range w.nodes {
		w.signal(n, syscall.SIGTERM)
	}
	for _, n := range w.nodes {
		w.awaitExit(n)
		assert.Empty(t, n.failure())
	}
	require.NoError(t, checkFence(w.actions()))
	assert.Positive(t, refused, "it has tried")
	t.Logf("a leader that was replaced and is alive: %d writes rejected", refused)
}

// replaceAlive has the leader lose its session while it is stopped, so that it is replaced, and lets it go on. It returns how
// many of its writes were refused then; none may be done.
func (w *world) replaceAlive(db *sql.DB) (refused int) {
	w.t.Helper()
	awaitCount(w.t, db, candidates-1, waiting)
	old := w.awaitLeader("a leader")
	w.signal(old.node, syscall.SIGSTOP)
	_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`, fmt.Sprintf("sessions-%d", old.node.pid))
	require.NoError(w.t, err)
	w.awaitTerm(old.node)
	replaced := now()
	w.signal(old.node, syscall.SIGCONT)
	time.Sleep(w.lease / 4) // longer than RetryPeriod
	for _, a := range w.actions() {
		if a.node != old.node || a.term != old.term {
			continue
		}
		assert.False(w.t, a.said == "done" && a.begin > replaced, "%v after a greater term", a)
		if a.said == "refused" {
			refused++
		}
	}
	return refused
}
