//go:build linux

package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

var cycles = flag.Int("cycles", 1, "how often each fault happens")

// manyChanges is a history that holds a whole test, and fewChanges one that does not.
var (
	manyChanges = postgres.Config{History: 1_000_000}
	fewChanges  = postgres.Config{History: 50}
)

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	rowWriters()
	dbtest.WriterMain(func(ctx context.Context, target string) (backend.Backend, error) {
		addr, trim := strings.CutPrefix(target, "trim ")
		cfg := manyChanges
		if trim {
			cfg = fewChanges
		}
		// A connection that hangs when its call ends keeps its place in the pool for 15 s, so a small pool would have none left for a while.
		pool, err := pgxpool.New(ctx, "postgres://postgres@"+addr+"/postgres?sslmode=disable&pool_max_conns=32")
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, pool, cfg)
	})
	os.Exit(m.Run())
}

// broken is what a fault breaks.
type broken struct {
	w      *dbtest.Writers
	server *servertest.Server
	proxy  *servertest.Proxy
	near   *pgxpool.Pool // past the proxy
	disk   *servertest.Disk
	clock  string // a file that says by how much the clock of the server is wrong
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
	const halfOpen = "connections are half-open"
	const clock, disk, standby = "the clock of the server is an hour off", "the disk is full", "the primary is killed and its synchronous standby promoted"
	for name, fault := range map[string]func(*testing.T, *broken){
		"a writer is killed":        func(_ *testing.T, b *broken) { b.w.KillWriter() },
		"the server is killed":      func(_ *testing.T, b *broken) { b.server.Restart() },
		"the server is restarted":   func(_ *testing.T, b *broken) { b.server.Stop(); b.server.Start() },
		"all connections are cut":   func(_ *testing.T, b *broken) { b.proxy.Cut() },
		"a reply is lost":           func(_ *testing.T, b *broken) { b.proxy.CutNextReply() },
		halfOpen:                    func(_ *testing.T, b *broken) { b.proxy.Hang() },
		"the network stalls":        stall(100 * time.Millisecond),
		"the network stalls longer": stall(3 * time.Second),
		clock: func(t *testing.T, b *broken) {
			hours := rand.IntN(3) - 1
			require.NoError(t, os.WriteFile(b.clock, fmt.Appendf(nil, "%+dh", hours), 0o644))
			var now time.Time
			require.NoError(t, b.near.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&now))
			require.WithinDuration(t, time.Now().Add(time.Duration(hours)*time.Hour), now, 10*time.Minute)
		},
		disk: func(t *testing.T, b *broken) {
			b.disk.Fill()
			stuck := func() bool { // no write was acknowledged for a while
				before := b.w.Writes()
				time.Sleep(50 * time.Millisecond)
				return b.w.Writes() == before
			}
			require.Eventually(t, stuck, time.Minute, time.Millisecond)
			b.disk.Free()
			b.server.Revive() // it has ended if there was no space for its log
		},
		standby: func(t *testing.T, b *broken) {
			next := servertest.PostgresStandby(t, b.server.Addr(), "fsync=off")
			direct := connect(t, b.server.Addr())
			require.Eventually(t, func() (streams bool) { // a commit without a standby is visible before it is safe
				err := direct.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')`).Scan(&streams)
				return err == nil && streams
			}, time.Minute, time.Millisecond)
			exec(t, direct, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
			exec(t, direct, `SELECT pg_reload_conf()`)
			require.Eventually(t, func() bool {
				direct.Reset() // a new connection knows what the postmaster has made all others read
				var names string
				err := direct.QueryRow(t.Context(), `SHOW synchronous_standby_names`).Scan(&names)
				return err == nil && names == "*"
			}, time.Minute, time.Millisecond)
			exec(t, direct, `CHECKPOINT`) // by the process that makes commits wait from now on
			direct.Close()
			b.w.AwaitWrites(20) // of which the standby has all that are acknowledged from now on
			b.server.Kill()
			servertest.PromotePostgres(t, next)
			b.proxy.Redirect(next.Addr())
			b.proxy.Cut()
			b.server = next
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := servertest.Cluster{Settings: []string{"fsync=off"}} // a server that is killed has given its writes to the system
			var b broken
			switch name {
			case clock:
				lib := servertest.Library(t, "libfaketime.so.1", "libfaketime")
				b.clock = filepath.Join(t.TempDir(), "offset")
				require.NoError(t, os.WriteFile(b.clock, []byte("+0h"), 0o644))
				for dir := b.clock; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // the server is another user
					_ = os.Chmod(dir, 0o755)
				}
				cluster.Env = []string{
					"LD_PRELOAD=" + lib, "FAKETIME_TIMESTAMP_FILE=" + b.clock, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_RESET=1",
				}
			case disk:
				b.disk = servertest.NewDisk(t, 120<<20)
				cluster.Dir = b.disk.Dir
			}
			b.server = cluster.Start(t)
			b.proxy = servertest.NewProxy(t, b.server.Addr())
			b.near = connect(t, b.server.Addr())
			require.NoError(t, postgres.Migrate(t.Context(), b.near, manyChanges))
			db := open(t, connect(t, b.proxy.Addr()), manyChanges)
			if name == halfOpen {
				db.SetPatience(500 * time.Millisecond)
			}
			away := dbtest.NewAway(db)
			b.w = dbtest.BeginWriters(t, away, b.proxy.Addr())
			b.w.Repeat(*cycles, func() { fault(t, &b) })
			changes := b.w.Check(open(t, connect(t, b.server.Addr()), manyChanges))
			b.proxy.Cut() // or closing the pool would wait for those that are half-open
			t.Logf("%d times, %d writes acknowledged, %d changes, %d watches expired", *cycles, b.w.Writes(), changes, away.Expired())
			if name != standby { // where a killed server may show a commit before the standby has it
				assert.Zero(t, away.Expired())
			}
		})
	}
}

// The history is trimmed while the watches are disconnected. Each one expires, and the informer lists again.
func TestNothingIsMissedWhenHistoryIsTrimmedDuringWatchGap(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t, "fsync=off")
	pool := connect(t, server.Addr())
	require.NoError(t, postgres.Migrate(t.Context(), pool, fewChanges))
	away := dbtest.NewAway(open(t, pool, fewChanges))
	w := dbtest.BeginWriters(t, away, "trim "+server.Addr())
	w.Repeat(*cycles, func() {
		away.Miss(t, func() { w.AwaitWrites(2 * fewChanges.History) })
	})
	w.Check(nil)
	t.Logf("%d times, %d writes acknowledged, %d watches expired", *cycles, w.Writes(), away.Expired())
}

// The server accepts connections and never replies. A call ends with its context.
func TestCallToHangingServerEndsWithContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errGone)
	defer cancel()
	_, err = postgres.Open(ctx, connect(t, silent.Addr().String()), postgres.Config{})
	require.Error(t, err)
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
}
