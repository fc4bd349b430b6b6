//go:build linux

package backendtest

import (
	"context"
	"crypto/sha256"
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

	mariadbWaiting = `SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'`
)

func TestPostgresSessions(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	direct := openPostgres(t, "pgx", server.Addr())
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run("by "+driver, func(t *testing.T) {
			cut := func(string) {
				_, err := direct.Exec(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'`)
				require.NoError(t, err)
			}
			endsWithHolder(t, openPostgres(t, driver, server.Addr()), sqllease.Postgres, sessionServer{direct, waiting, nil}, cut)
			awaitCount(t, direct, 0, holding)
		})
	}
}

func TestMariaDBSessions(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDB(t)
	direct := openMariaDB(t, "root", server.Addr(), recommended)
	for _, options := range []string{recommended, ""} {
		t.Run("with options "+options, func(t *testing.T) {
			cut := func(session string) {
				var holder sql.NullInt64
				lock := fmt.Sprintf("sqllease %x", sha256.Sum256([]byte(session)))[:len("sqllease ")+32]
				require.NoError(t, direct.QueryRow(`SELECT is_used_lock(?)`, lock).Scan(&holder))
				require.True(t, holder.Valid, "no connection holds it")
				_, err := direct.Exec(fmt.Sprintf(`KILL %d`, holder.Int64))
				require.NoError(t, err)
			}
			endsWithHolder(t, openMariaDB(t, "root", server.Addr(), options), sqllease.MySQL, sessionServer{direct, mariadbWaiting, nil}, cut)
		})
	}
	t.Run("a replica is refused", func(t *testing.T) {
		_, err := direct.Exec(`SET GLOBAL read_only = 1`)
		require.NoError(t, err)
		s, err := sqllease.NewSessions(direct, sqllease.SessionsConfig{Dialect: sqllease.MySQL})
		require.NoError(t, err)
		require.ErrorContains(t, s.Hold(t.Context(), "a", func() { t.Error("it is held") }), "standby")
		require.ErrorContains(t, s.AwaitEnd(t.Context(), "a"), "standby")
	})
}

// endsWithHolder holds a session, and checks that waits end with its context, and with its connection. cut ends the connection.
func endsWithHolder(t *testing.T, db *sql.DB, d sqllease.Dialect, server sessionServer, cut func(session string)) {
	s, err := sqllease.NewSessions(db, sqllease.SessionsConfig{Dialect: d, CheckPeriod: 50 * time.Millisecond})
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
	awaitCount(t, server.db, 0, server.waiting) // the server notices that the first one has gone

	gone := make(chan error, 2)
	for range cap(gone) {
		go func() { gone <- s.AwaitEnd(context.Background(), "a") }() // the test waits for its end
	}
	awaitCount(t, server.db, 2, server.waiting)
	cancel()
	require.ErrorIs(t, <-end, context.Canceled)
	require.NoError(t, <-gone)
	require.NoError(t, <-gone)
	awaitCount(t, server.db, 0, server.waiting)

	end = hold(context.Background())
	cut("a")
	require.Error(t, <-end, "its session has ended")
	require.NoError(t, s.AwaitEnd(context.Background(), "a"))
}

// sessionServer is a server with sessions, as an operator sees it.
type sessionServer struct {
	db      *sql.DB
	waiting string        // counts the connections that wait for the end of a session
	cut     func(pid int) // ends all connections of the sessions of a process
}

func TestEarlyTakeoverOnPostgres(t *testing.T) {
	t.Parallel()
	w := withSessions(postgresWorld(t))
	w.t, w.name, w.backend = t, "postgres", "postgres"
	db := openPostgres(t, "pgx", w.addr)
	w.takeOverEarly(sessionServer{db, waiting, func(pid int) {
		_, err := db.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1`, fmt.Sprintf("sessions-%d", pid))
		require.NoError(t, err)
	}})
}

func TestEarlyTakeoverOnMariaDB(t *testing.T) {
	t.Parallel()
	w := withSessions(mariadbWorld(t))
	w.t, w.name, w.backend = t, "mariadb", "mariadb"
	db := openMariaDB(t, "root", w.addr, recommended)
	w.takeOverEarly(sessionServer{db, mariadbWaiting, func(pid int) {
		rows, err := db.Query(`SELECT id FROM information_schema.processlist WHERE db = ?`, fmt.Sprintf("sessions_%d", pid))
		require.NoError(t, err)
		defer rows.Close()
		for rows.Next() {
			var id int
			require.NoError(t, rows.Scan(&id))
			_, err := db.Exec(fmt.Sprintf(`KILL %d`, id))
			require.NoError(t, err)
		}
		require.NoError(t, rows.Err())
	}})
}

// takeOverEarly kills leaders, and counts the time until the next one acts. Then it has one replaced that lives, and sees
// that it does nothing any more.
func (w *world) takeOverEarly(s sessionServer) {
	t, db, waiting := w.t, s.db, s.waiting
	t.Helper()
	w.lease = 6 * time.Second
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
		refused += w.replaceAlive(s)
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
func (w *world) replaceAlive(s sessionServer) (refused int) {
	w.t.Helper()
	awaitCount(w.t, s.db, candidates-1, s.waiting)
	old := w.awaitLeader("a leader")
	w.signal(old.node, syscall.SIGSTOP)
	s.cut(old.node.pid)
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
