//go:build linux

package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/postgres"
	"github.com/setpoint-go/setpoint/wait"
)

// failOverBehind makes a standby, and lets it lag in one of three ways: it is stopped; it receives but does not replay; it does what it can.
// It kills the primary when more writes have been acknowledged, and, in the first way, seen by the cache. It promotes the standby, and calls
// promoted before the proxy leads there.
func (l *loss) failOverBehind(t *testing.T, way int, awaitWrites func(int), awaitCache func(), promoted func(direct *pgxpool.Pool)) {
	t.Helper()
	l.standby = servertest.PostgresStandby(t, l.primary.Addr(), "fsync=off")
	switch way % 3 {
	case 0:
		l.standby.Stop()
	case 1:
		paused := connect(t, l.standby.Addr())
		exec(t, paused, `SELECT pg_wal_replay_pause()`)
		paused.Close()
	}
	awaitWrites(20)
	if way%3 == 0 {
		awaitCache()
	}
	l.primary.Kill()
	if way%3 == 0 {
		l.standby.Start()
	}
	l.promote(t)
	direct := connect(t, l.standby.Addr())
	promoted(direct)
	direct.Close()
	l.useStandby()
}

// gaps returns the gaps in the versions of a schema.
func gaps(t *testing.T, pool *pgxpool.Pool) (all []gap) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT after, before FROM setpoint.gaps ORDER BY after`)
	require.NoError(t, err)
	all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[gap])
	require.NoError(t, err)
	return all
}

// gap is a range of lost versions, without its ends.
type gap struct{ After, Before informer.Version }

// While four writers in two processes write and an informer watches, the primary is killed again and again, and a standby that lags is
// promoted. Exactly the writes that the standby lacks are lost. No cache keeps any of them.
func TestCacheIsCorrectWhileLaggingStandbysArePromoted(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	near := connect(t, l.primary.Addr())
	require.NoError(t, postgres.Migrate(t.Context(), near, manyChanges))
	near.Close()
	w := dbtest.BeginLossyWriters(t, open(t, connect(t, l.proxy.Addr()), manyChanges), l.proxy.Addr())
	var left []informer.Version // the last version of each standby
	w.Repeat(*cycles, func() {
		l.failOverBehind(t, len(left), w.AwaitWrites, w.AwaitCache, func(direct *pgxpool.Pool) {
			var v informer.Version
			require.NoError(t, direct.QueryRow(t.Context(), `SELECT version FROM setpoint.state`).Scan(&v))
			left = append(left, v)
		})
	})
	near = connect(t, l.primary.Addr())
	lost := gaps(t, near)
	var begins []informer.Version
	for _, gap := range lost {
		begins = append(begins, gap.After)
	}
	assert.Equal(t, left, begins)
	changes, missing, expired := w.CheckLossy(open(t, near, manyChanges), func(v informer.Version) bool {
		for _, gap := range lost {
			if v > gap.After && v < gap.Before {
				return true
			}
		}
		return false
	})
	l.proxy.Cut() // or closing the pool would wait for connections that are half-open
	t.Logf("%d times, %d writes acknowledged, of which %d were lost, %d changes, %d watches expired", *cycles, w.Writes(), missing, changes, expired)
	stopped := (*cycles + 2) / 3
	assert.GreaterOrEqual(t, missing, 20*stopped, "a standby that is stopped lacks what was written afterward")
	assert.GreaterOrEqual(t, expired, stopped, "the cache has seen that")
}

const (
	envRows = "SETPOINT_ROWS_ADDR" // the server to which a process of rowWriters writes
	envName = "SETPOINT_ROWS_NAME" // the name of the process
)

// rowWriters makes this process one of two goroutines that write rows, if the environment asks for it. Each transaction inserts a row,
// updates the previous one, and deletes the one before, but keeps every tenth row. It also changes a row that all writers share. When the
// commit was acknowledged, the process prints the name of the inserted row.
func rowWriters() {
	addr := os.Getenv(envRows)
	if addr == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // ends when the parent closes the pipe, or has died
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var g wait.Group
	for i := range 2 {
		g.Start(ctx, func(ctx context.Context) error {
			pool, err := pgxpool.New(ctx, "postgres://postgres@"+addr+"/postgres?sslmode=disable&pool_max_conns=1&connect_timeout=2")
			if err != nil {
				return err
			}
			defer pool.Close()
			for n := 0; ctx.Err() == nil; n++ {
				name := func(n int) string { return fmt.Sprint(os.Getenv(envName), "/", i, "/", n) }
				attempt, done := context.WithTimeout(ctx, 2*time.Second)
				err := pgx.BeginFunc(attempt, pool, func(tx pgx.Tx) error {
					batch := new(pgx.Batch)
					batch.Queue(`INSERT INTO journal VALUES ($1)`, name(n))
					batch.Queue(`INSERT INTO sites VALUES ($1, 1)`, name(n))
					batch.Queue(`UPDATE sites SET rev = 2 WHERE name = $1`, name(n-1))
					batch.Queue(`INSERT INTO sites VALUES ('shared', 1) ON CONFLICT (name) DO UPDATE SET rev = sites.rev + 1`)
					if n%10 != 0 {
						batch.Queue(`DELETE FROM sites WHERE name = $1`, name(n-2))
					}
					return tx.SendBatch(attempt, batch).Close()
				})
				done()
				if err == nil {
					fmt.Println(name(n))
				} else {
					_ = wait.Sleep(ctx, 10*time.Millisecond) // the server is gone; nobody knows whether the transaction has committed
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// acks are the names of the rows whose transactions were acknowledged, in order.
type acks struct {
	t *testing.T

	mu sync.Mutex
	// mu guards the following.
	names []string
}

func (a *acks) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names
}

// await waits for n more acknowledgments.
func (a *acks) await(n int) {
	a.t.Helper()
	goal := len(a.all()) + n
	require.Eventually(a.t, func() bool { return len(a.all()) >= goal }, time.Minute, time.Millisecond)
}

// launch starts a process of rowWriters. end ends it.
func (a *acks) launch(addr, name string) (end func()) {
	a.t.Helper()
	c := osexec.Command(os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), envRows+"="+addr, envName+"="+name), os.Stderr
	in, err := c.StdinPipe()
	require.NoError(a.t, err)
	out, err := c.StdoutPipe()
	require.NoError(a.t, err)
	require.NoError(a.t, c.Start())
	a.t.Cleanup(func() { _ = c.Process.Kill() }) // it has ended, unless the test has failed
	read := make(chan struct{})
	go func() { // ends with the output of the process; end waits for it
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.mu.Lock()
			a.names = append(a.names, lines.Text())
			a.mu.Unlock()
		}
	}()
	return func() {
		_ = in.Close()
		<-read
		require.NoError(a.t, c.Wait())
	}
}

// As above, with a table that the writers change by themselves.
func TestTableCacheIsCorrectWhileLaggingStandbysArePromoted(t *testing.T) {
	t.Parallel()
	l := newLoss(t)
	near := connect(t, l.primary.Addr())
	exec(t, near, `CREATE TABLE sites (name text PRIMARY KEY, rev integer NOT NULL)`)
	exec(t, near, `CREATE TABLE journal (name text PRIMARY KEY)`)
	cfg := postgres.TableConfig{Table: "sites", Schema: "log"}
	require.NoError(t, postgres.InstallTable(t.Context(), near, cfg))
	near.Close()
	table := sitesIn(t, connect(t, l.proxy.Addr()), cfg)
	inf, err := informer.New(table, siteName, informer.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	live := map[string]bool{} // of the goroutine of the handler, until the informer has stopped
	handler, err := inf.AddHandler(informer.Handler[string, site]{
		EveryEvent: true,
		OnAdd:      func(s site, _ bool) { live[s.Name] = true },
		OnDelete:   func(d cache.Tombstone[string, site]) { delete(live, d.Key) },
	})
	require.NoError(t, err)
	following, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- inf.Run(following) }() // ends with stop; the test waits for it
	t.Cleanup(stop)
	<-inf.Synced()
	acked := &acks{t: t}
	end := []func(){acked.launch(l.proxy.Addr(), "1"), acked.launch(l.proxy.Addr(), "2")}

	type window struct{ begin, end int } // the acknowledgments between the copy of the primary and the promotion: some are lost
	var windows []window
	for i := range *cycles {
		acked.await(20)
		begin, before := len(acked.all()), inf.Version()
		awaitCache := func() {
			primary := connect(t, l.primary.Addr())
			defer primary.Close()
			passes(t, inf, versionNow(t, primary, table)-1)
		}
		l.failOverBehind(t, i, acked.await, awaitCache, func(*pgxpool.Pool) {
			windows = append(windows, window{begin, len(acked.all())})
		})
		passes(t, inf, before) // no cache is stuck
	}
	acked.await(20)
	for _, end := range end {
		end()
	}
	near = connect(t, l.primary.Addr())
	agree(t, near, cfg, inf)
	require.NoError(t, handler.WaitIdle(t.Context()))
	stop()
	require.NoError(t, <-done)
	now := sitesNow(t, near)
	assert.Len(t, live, len(now))
	for name := range now {
		assert.True(t, live[name], name)
	}
	rows, err := near.Query(t.Context(), `SELECT name FROM journal`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	lost := 0
	for i, name := range acked.all() {
		if left[name] {
			continue
		}
		lost++
		may := false
		for _, w := range windows {
			may = may || i >= w.begin && i < w.end
		}
		assert.True(t, may, "%s is lost, and the standby had it", name)
	}
	t.Logf("%d times, %d transactions acknowledged, of which %d were lost, %d rows are left", *cycles, len(acked.all()), lost, len(now))
	assert.GreaterOrEqual(t, lost, 20*((*cycles+2)/3), "a standby that is stopped lacks what was written afterward")
	l.proxy.Cut()
}

// A transaction that was prepared before a crash, and committed after it, has left nothing in the log.
func TestTransactionPreparedBeforeCrashReachesCache(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off", "max_prepared_transactions=1", "autovacuum=off")
	pool := connect(t, server.Addr())
	cfg := newTable(t, pool)
	cfg.WithoutNotify, cfg.Poll = true, 50*time.Millisecond // or nothing could be prepared
	require.NoError(t, postgres.InstallTable(t.Context(), pool, cfg))
	exec(t, pool, `INSERT INTO `+sqlName(cfg)+` VALUES ('a', 1)`)
	inf := follow(t, sitesIn(t, pool, cfg))
	agree(t, pool, cfg, inf)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	_, err = conn.Conn().PgConn().Exec(t.Context(), `BEGIN; UPDATE `+sqlName(cfg)+` SET rev = 2; PREPARE TRANSACTION 'p'`).ReadAll()
	require.NoError(t, err)
	conn.Release()
	exec(t, pool, `CHECKPOINT`)
	lists := inf.Stats().Lists
	server.Restart()
	pool.Reset()
	require.Eventually(t, func() bool { return inf.Stats().Lists > lists }, 30*time.Second, 10*time.Millisecond, "it lists")
	exec(t, pool, `COMMIT PREPARED 'p'`)
	agree(t, pool, cfg, inf)
}
