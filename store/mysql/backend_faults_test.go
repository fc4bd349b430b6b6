//go:build linux

package mysql_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/store/mysql/internal/tabletest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/mysql"
)

var million = flag.Bool("million", false, "list a million objects, and watch 100,000 changes")

// manyChanges is a history that holds a whole test, and fewChanges one that does not.
var (
	manyChanges = mysql.Config{History: 1_000_000}
	fewChanges  = mysql.Config{History: 50}
)

// openStore opens the tables in the database test of a server, for a writer process.
func openStore(ctx context.Context, target string) (backend.Backend, error) {
	addr, trim := strings.CutPrefix(target, "trim ")
	cfg := manyChanges
	if trim {
		cfg = fewChanges
	}
	db, err := tabletest.OpenPool(tabletest.DSN("writer", addr, "test", "timeout=5s"))
	if err != nil {
		return nil, err
	}
	return mysql.Open(ctx, db, cfg)
}

// testPool returns a pool for the database test of the server at an address until the test ends.
func testPool(t testing.TB, addr string) *sql.DB {
	t.Helper()
	db, err := tabletest.OpenPool(tabletest.DSN("root", addr, "test", "timeout=5s"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a connection may be broken
	return db
}

// migrateTest creates the tables in the database test, and the user of the writer processes, who may not write a server that is read-only.
func migrateTest(t testing.TB, db *sql.DB, cfg mysql.Config) {
	t.Helper()
	tabletest.Do(t, db, "CREATE USER writer")
	tabletest.Do(t, db, "GRANT ALL ON test.* TO writer")
	require.NoError(t, mysql.Migrate(t.Context(), db, cfg))
}

// broken is what a fault breaks.
type broken struct {
	w      *dbtest.Writers
	server *servertest.Server
	proxy  *servertest.Proxy
	near   *sql.DB // past the proxy
	disk   *servertest.Disk
}

// awaitStandstill waits until no write is acknowledged for a while.
func awaitStandstill(t *testing.T, w *dbtest.Writers) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := w.Writes()
		time.Sleep(50 * time.Millisecond)
		return w.Writes() == before
	}, time.Minute, time.Millisecond)
}

// While four writers in two processes write and an informer watches, something fails again and again. See package writers
// for what holds at the end.
func TestNoAcknowledgedWriteIsLostWhile(t *testing.T) {
	stall := func(d time.Duration) func(*testing.T, *broken) {
		return func(_ *testing.T, b *broken) {
			b.proxy.Stall()
			time.Sleep(d)
			b.proxy.Heal()
		}
	}
	const halfOpen, disk = "connections are half-open", "the disk is full"
	for name, fault := range map[string]func(*testing.T, *broken){
		"a writer is killed":        func(_ *testing.T, b *broken) { b.w.KillWriter() },
		"the server is killed":      func(_ *testing.T, b *broken) { b.server.Restart() },
		"the server is restarted":   func(_ *testing.T, b *broken) { b.server.Stop(); b.server.Start() },
		"all connections are cut":   func(_ *testing.T, b *broken) { b.proxy.Cut() },
		"a reply is lost":           func(_ *testing.T, b *broken) { b.proxy.CutNextReply() },
		halfOpen:                    func(_ *testing.T, b *broken) { b.proxy.Hang() },
		"the network stalls":        stall(100 * time.Millisecond),
		"the network stalls longer": stall(3 * time.Second),
		"the server kills the connections": func(t *testing.T, b *broken) {
			ids, err := b.near.Query("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'root'")
			require.NoError(t, err)
			var all []string
			for ids.Next() {
				var id string
				require.NoError(t, ids.Scan(&id))
				all = append(all, id)
			}
			require.NoError(t, ids.Err())
			for _, id := range all {
				_, _ = b.near.Exec("KILL " + id) // it may be gone
			}
		},
		"the server is read-only for a while": func(t *testing.T, b *broken) {
			tabletest.Do(t, b.near, "SET GLOBAL read_only = 1") // which waits for open transactions
			awaitStandstill(t, b.w)
			tabletest.Do(t, b.near, "SET GLOBAL read_only = 0")
		},
		disk: func(t *testing.T, b *broken) {
			b.disk.Fill()
			awaitStandstill(t, b.w)
			b.disk.Free()
			b.server.Revive() // it has ended if there was no space for its log
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b broken
			if name == disk {
				b.disk = servertest.NewDisk(t, 200<<20)
				b.server = servertest.MariaDBIn(t, b.disk.Dir, "innodb-flush-log-at-trx-commit=2")
			} else {
				b.server = newServer(t)
			}
			b.proxy = servertest.NewProxy(t, b.server.Addr())
			b.near = testPool(t, b.server.Addr())
			migrateTest(t, b.near, manyChanges)
			db := open(t, testPool(t, b.proxy.Addr()), manyChanges)
			if name == halfOpen {
				db.SetPatience(500 * time.Millisecond)
			}
			away := dbtest.NewAway(db)
			b.w = dbtest.BeginWriters(t, away, b.proxy.Addr())
			b.w.Repeat(*cycles, func() { fault(t, &b) })
			changes := b.w.Check(open(t, testPool(t, b.server.Addr()), manyChanges))
			b.proxy.Cut() // or closing the pool would wait for those that are half-open
			t.Logf("%d times, %d writes acknowledged, %d changes, %d watches expired", *cycles, b.w.Writes(), changes, away.Expired())
			assert.Zero(t, away.Expired())
		})
	}
}

// The history is trimmed while the watches are disconnected. Each one expires, and the informer lists again.
func TestNothingIsMissedWhenHistoryIsTrimmedDuringWatchGap(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := testPool(t, server.Addr())
	migrateTest(t, db, fewChanges)
	away := dbtest.NewAway(open(t, db, fewChanges))
	w := dbtest.BeginWriters(t, away, "trim "+server.Addr())
	w.Repeat(*cycles, func() {
		away.Miss(t, func() { w.AwaitWrites(2 * fewChanges.History) })
	})
	w.Check(nil)
	t.Logf("%d times, %d writes acknowledged, %d watches expired", *cycles, w.Writes(), away.Expired())
}

// The server has not flushed its last commits when it is killed, so that it loses writes that it has acknowledged, and assigns their numbers
// again. No cache keeps what was lost, and none misses what came after.
func TestCacheIsCorrectWhileServerLosesCommits(t *testing.T) {
	t.Parallel()
	server := servertest.MariaDBIn(t, os.TempDir(), "innodb-flush-log-at-trx-commit=0") // which maps its log if that is in memory
	proxy := servertest.NewProxy(t, server.Addr())
	near := testPool(t, server.Addr())
	migrateTest(t, near, manyChanges)
	server.Stop() // flushes the tables
	server.Start()
	w := dbtest.BeginLossyWriters(t, open(t, testPool(t, proxy.Addr()), manyChanges), proxy.Addr())
	tabletest.Do(t, near, "SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	w.AwaitWrites(20) // which are flushed
	tabletest.Do(t, near, "SET GLOBAL innodb_flush_log_at_trx_commit = 0")
	var left []informer.Version // the last version after each loss
	w.Repeat(*cycles, func() {
		w.AwaitWrites(20)
		w.AwaitCache()
		server.Kill()
		proxy.Stall()
		server.Start()
		var v informer.Version
		require.Eventually(t, func() bool { // an idle connection may be of before
			return near.QueryRow("SELECT version FROM setpoint_state").Scan(&v) == nil
		}, time.Minute, time.Millisecond)
		left = append(left, v)
		proxy.Heal()
		proxy.Cut()
	})
	changes, missing, expired := w.CheckLossy(open(t, testPool(t, server.Addr()), manyChanges), func(v informer.Version) bool {
		var kept bool
		require.NoError(t, near.QueryRow("SELECT COUNT(*) FROM setpoint_changes WHERE version = ?", uint64(v)).Scan(&kept))
		return v > left[0] && !kept
	})
	proxy.Cut()
	t.Logf("%d times, %d writes acknowledged, of which %d were lost, %d changes, %d watches expired", *cycles, w.Writes(), missing, changes, expired)
	assert.NotZero(t, missing)
	assert.NotZero(t, expired)
}

// replicaOf starts a replica of a server, which replays all that the server has written.
func replicaOf(t testing.TB, primary *servertest.Server, id int) *servertest.Server {
	t.Helper()
	replica := replicated(t, id)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	db := testPool(t, replica.Addr())
	tabletest.Do(t, db, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %s, MASTER_USER = 'root', MASTER_USE_GTID = slave_pos", host, port))
	tabletest.Do(t, db, "START SLAVE")
	return replica
}

// replicated starts a server that can have replicas, and be one.
func replicated(t testing.TB, id int) *servertest.Server {
	t.Helper()
	return newServer(t, fmt.Sprint("server-id=", id), "log-slave-updates", "relay-log=relay", "log-bin=binlog")
}

// While four writers in two processes write and an informer watches, the primary is killed again and again, and a replica that lags takes its
// place. No cache keeps any of the writes that the replica lacks, and none misses what came after.
func TestCacheIsCorrectWhileLaggingReplicasArePromoted(t *testing.T) {
	t.Parallel()
	primary := replicated(t, 1)
	proxy := servertest.NewProxy(t, primary.Addr())
	migrateTest(t, testPool(t, primary.Addr()), manyChanges)
	w := dbtest.BeginLossyWriters(t, open(t, testPool(t, proxy.Addr()), manyChanges), proxy.Addr())
	var left []informer.Version // the last version after each failover
	w.Repeat(*cycles, func() {
		next := replicaOf(t, primary, len(left)+2)
		near := testPool(t, next.Addr())
		version := func() (v informer.Version) {
			if near.QueryRow("SELECT version FROM setpoint_state").Scan(&v) != nil {
				return 0 // it has no tables yet
			}
			return v
		}
		goal, err := open(t, testPool(t, primary.Addr()), manyChanges).Version(t.Context())
		require.NoError(t, err)
		require.Eventually(t, func() bool { return version() >= goal }, time.Minute, time.Millisecond)
		tabletest.Do(t, near, "STOP SLAVE")
		w.AwaitWrites(20)
		w.AwaitCache()
		primary.Kill()
		tabletest.Do(t, near, "RESET SLAVE ALL")
		left = append(left, version())
		primary = next
		proxy.Redirect(next.Addr())
		proxy.Cut()
	})
	near := testPool(t, primary.Addr())
	changes, missing, expired := w.CheckLossy(open(t, near, manyChanges), func(v informer.Version) bool {
		var kept bool
		require.NoError(t, near.QueryRow("SELECT COUNT(*) FROM setpoint_changes WHERE version = ?", uint64(v)).Scan(&kept))
		return v > left[0] && !kept
	})
	proxy.Cut()
	t.Logf("%d times, %d writes acknowledged, of which %d were lost, %d changes, %d watches expired", *cycles, w.Writes(), missing, changes, expired)
	assert.GreaterOrEqual(t, missing, 20**cycles)
	assert.Equal(t, *cycles, expired)
}

// The server accepts connections and never replies. A call ends with its context.
func TestCallToHangingServerEndsWithContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errGone)
	defer cancel()
	db, err := tabletest.OpenPool(tabletest.DSN("root", silent.Addr().String(), "test", ""))
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	require.ErrorIs(t, second(mysql.Open(ctx, db, mysql.Config{})), errGone)
}

// brief is how long a read may take in tests of half-open connections: more than a read on a new connection takes on a busy machine.
const brief = time.Second

// A connection becomes half-open in the middle of a call. Reads of watches and lists end by themselves, and everything else with its context,
// also a commit.
func TestCallOnHalfOpenConnectionEnds(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	near := testPool(t, server.Addr())
	require.NoError(t, mysql.Migrate(t.Context(), near, mysql.Config{}))
	_, err := dbtest.Put(t.Context(), open(t, near, mysql.Config{}), "a", "1")
	require.NoError(t, err)
	for name, call := range map[string]func(ctx context.Context, db *mysql.Backend, hang func()) error{
		"a list": func(ctx context.Context, db *mysql.Backend, hang func()) error {
			for _, err := range db.List(ctx, "app", backend.Query{}) {
				if err != nil {
					return err
				}
				hang() // at its end: a list has one page
			}
			return context.DeadlineExceeded
		},
		"a watch": func(ctx context.Context, db *mysql.Backend, hang func()) error {
			for _, err := range db.Watch(context.WithoutCancel(ctx), "app", backend.Query{}, 0) {
				if err != nil {
					assert.ErrorContains(t, err, "the server has not answered in time")
					return context.DeadlineExceeded
				}
				hang()
			}
			return nil
		},
		"a get": func(ctx context.Context, db *mysql.Backend, hang func()) error {
			hang()
			_, err := db.Get(ctx, "app", "a")
			return err
		},
		"a write": func(ctx context.Context, db *mysql.Backend, hang func()) error {
			_, err := db.Transact(ctx, "app", "a", nil, func(have backend.Record) (*backend.Record, error) {
				hang()
				return &have, nil
			})
			return err
		},
		"a commit": func(ctx context.Context, db *mysql.Backend, hang func()) error {
			db.BeforeCommit(hang)
			_, err := dbtest.Put(ctx, db, "a", "2")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := servertest.NewProxy(t, server.Addr())
			db := open(t, testPool(t, proxy.Addr()), mysql.Config{})
			db.SetPatience(brief)
			ctx, cancel := context.WithTimeout(t.Context(), 2*brief)
			defer cancel()
			done := make(chan error)
			go func() { done <- call(ctx, db, proxy.Hang) }() // the test waits for it
			select {
			case err := <-done:
				require.ErrorIs(t, err, context.DeadlineExceeded)
			case <-time.After(30 * time.Second):
				t.Error("it has not returned")
			}
			proxy.Cut()
		})
	}
}

// The rows are copies of one that was written by the package, made by SQL, which is fast.
func TestMillionObjectsAreReadInBoundedMemory(t *testing.T) {
	t.Parallel()
	objects, changes := 10_000, 1000
	if *million {
		objects, changes = 1_000_000, 100_000
	}
	server := newServer(t, "innodb-buffer-pool-size=128M", "innodb-log-file-size=64M")
	one := newDatabase(t, server)
	require.NoError(t, mysql.Migrate(t.Context(), one, mysql.Config{}))
	db := open(t, one, mysql.Config{History: 10_000_000})
	_, err := dbtest.Put(t.Context(), db, "0", `{"Image":"registry.example/app:1"}`)
	require.NoError(t, err)
	copies(t, one, objects)
	dbtest.ReadsInBoundedMemory(t, db, objects, changes, func() {
		tabletest.Do(t, one, "INSERT INTO setpoint_changes SELECT kind, `key`, version + ? * 1024, 0, record, value, version + ? FROM setpoint_objects ORDER BY version LIMIT ?",
			objects, objects, changes)

		tabletest.Do(t, one, "UPDATE setpoint_state SET version = (SELECT MAX(version) FROM setpoint_changes)")
	})
}
