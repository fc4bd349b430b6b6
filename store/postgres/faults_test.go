//go:build linux

package postgres_test

import (
	"context"
	"flag"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/internal/writers"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/postgres"
)

var cycles = flag.Int("cycles", 3, "how often each fault happens")

// manyChanges is a history that holds a whole test.
var manyChanges = postgres.Config{History: 1_000_000}

// TestMain makes the test binary a writer process if the environment says so.
func TestMain(m *testing.M) {
	writers.Main(func(ctx context.Context, addr string) (backend.Backend, error) {
		pool, err := pgxpool.New(ctx, "postgres://postgres@"+addr+"/postgres?sslmode=disable")
		if err != nil {
			return nil, err
		}
		return postgres.Open(ctx, pool, manyChanges)
	})
	os.Exit(m.Run())
}

// While four writers in two processes write and an informer watches, something fails again and again. See package writers
// for what holds at the end.
func TestNoAcknowledgedWriteIsLostWhile(t *testing.T) {
	for name, fault := range map[string]func(w *writers.World, s *servertest.Server, p *servertest.Proxy){
		"a writer is killed":      func(w *writers.World, _ *servertest.Server, _ *servertest.Proxy) { w.KillWriter() },
		"the server is killed":    func(_ *writers.World, s *servertest.Server, _ *servertest.Proxy) { s.Restart() },
		"the server is restarted": func(_ *writers.World, s *servertest.Server, _ *servertest.Proxy) { s.Stop(); s.Start() },
		"all connections are cut": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) { p.Cut() },
		"a reply is lost":         func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) { p.CutNextReply() },
		"the network stalls": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) {
			p.Stall()
			time.Sleep(100 * time.Millisecond)
			p.Heal()
		},
		"the network stalls longer": func(_ *writers.World, _ *servertest.Server, p *servertest.Proxy) {
			p.Stall()
			time.Sleep(3 * time.Second)
			p.Heal()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servertest.Postgres(t, "fsync=off") // a server that is killed has given its writes to the system
			proxy := servertest.NewProxy(t, server.Addr())
			near := connect(t, server.Addr())
			require.NoError(t, postgres.Migrate(t.Context(), near, manyChanges))
			w := writers.Begin(t, open(t, connect(t, proxy.Addr()), manyChanges), proxy.Addr())
			w.Repeat(*cycles, func() { fault(w, server, proxy) })
			near.Reset() // its connections may be of a server that was killed
			changes := w.Check(open(t, near, manyChanges))
			t.Logf("%d times, %d writes acknowledged, %d changes", *cycles, w.Writes(), changes)
		})
	}
}

// A server that accepts connections and never answers: a call ends with its context.
func TestACallToAServerThatHangsEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errGone)
	defer cancel()
	_, err = postgres.Open(ctx, connect(t, silent.Addr().String()), postgres.Config{})
	require.Error(t, err)
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
}
