//go:build linux

package nats_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

// manyChanges is a history that holds a whole test, and fewChanges one that does not.
var (
	manyChanges = nats.Config{History: 1_000_000, Timeout: 2 * time.Second}
	fewChanges  = nats.Config{History: 50, Timeout: 2 * time.Second, Poll: 10 * time.Millisecond}
)

// soon is the time between an announcement and a removal in tests that trim the history.
const soon = 50 * time.Millisecond

const (
	envAddr = "SETPOINT_NATS_ADDR" // at which the process listens
	envDir  = "SETPOINT_NATS_DIR"  // in which it keeps its files
)

// atOnce is how many tests and cases run at once, unless -parallel says so: they mostly wait.
const atOnce = "8"

// TestMain makes the test binary a server or a writer process if the environment says so.
func TestMain(m *testing.M) {
	if addr := os.Getenv(envAddr); addr != "" {
		if err := runServer(addr, os.Getenv(envDir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(envBucketWriter); text != "" {
		if err := runBucketWriter(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dbtest.WriterMain(func(ctx context.Context, target string) (backend.Backend, error) {
		addr, trim := strings.CutPrefix(target, "trim ")
		js, err := dial(addr)
		if err != nil {
			return nil, err
		}
		if !trim {
			return nats.Open(ctx, js, manyChanges)
		}
		db, err := nats.Open(ctx, js, fewChanges)
		if err == nil {
			db.SetGrace(soon)
		}
		return db, err
	})
	flag.Parse()
	dbtest.LimitParallel(atOnce)
	os.Exit(m.Run())
}

// dial connects as often as it takes.
func dial(addr string) (jetstream.JetStream, error) {
	nc, err := natsgo.Connect("nats://"+addr,
		natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1), natsgo.ReconnectWait(10*time.Millisecond),
		natsgo.PingInterval(time.Second), natsgo.MaxPingsOutstanding(2))
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

// runServer is a server until SIGINT.
func runServer(addr, dir string) error {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	s, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: dir, NoSigs: true})
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		return errors.New("the server is not ready")
	}
	<-interrupted
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// process starts a server as a process of its own.
func process(t testing.TB) *servertest.Server {
	t.Helper()
	return daemon{}.start(t)
}

// daemon says how a server runs in a process of its own.
type daemon struct {
	dir   string // where it keeps its files; defaults to a temporary directory
	clock bool   // it has a clock of its own
}

func (d daemon) start(t testing.TB) *servertest.Server {
	t.Helper()
	addr := servertest.FreeAddr(t)
	dir, attr := servertest.DaemonDir(t)
	attr.Credential = nil // the test binary may be where nobody else may read
	if d.dir != "" {
		dir = d.dir
	}
	return servertest.Start(t, addr, func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), envAddr+"="+addr, envDir+"="+dir)
		c.SysProcAttr = attr
		if d.clock {
			return servertest.OwnClock(t, c)
		}
		return c
	}, func() error {
		nc, err := natsgo.Connect("nats://"+addr, natsgo.Timeout(time.Second))
		if err != nil {
			return err
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = js.AccountInfo(ctx)
		return err
	})
}

// reach returns a connection to an address that survives every fault, until the test ends.
func reach(t testing.TB, addr string) jetstream.JetStream {
	t.Helper()
	js, err := dial(addr)
	require.NoError(t, err)
	t.Cleanup(js.Conn().Close)
	return js
}
