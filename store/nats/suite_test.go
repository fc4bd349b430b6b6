package nats_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
	"github.com/setpoint-go/setpoint/store/storetest"
)

// serve starts a server in this process until the test ends.
func serve(t testing.TB) *server.Server {
	t.Helper()
	return serveLimited(t, server.JSLimitOpts{})
}

// serveLimited starts a server with limits in this process until the test ends.
func serveLimited(t testing.TB, limits server.JSLimitOpts) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		JetStreamLimits: limits,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	return s
}

// connect returns a connection of its own until the test ends.
func connect(t testing.TB, url string, options ...natsgo.Option) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(url, append([]natsgo.Option{natsgo.MaxReconnects(-1), natsgo.ReconnectWait(10 * time.Millisecond)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

// streams counts the streams of all tests.
var streams atomic.Int32

// newStream creates a stream in files.
func newStream(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", streams.Add(1))
	require.NoError(t, nats.Create(t.Context(), js, nats.Config{Stream: name}))
	return name
}

// newStreamInMemory creates a stream in memory, where an atomic publish costs the server no fsync.
func newStreamInMemory(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	cfg, err := nats.StreamConfig(nats.Config{Stream: fmt.Sprintf("test_%d", streams.Add(1))})
	require.NoError(t, err)
	cfg.Storage = jetstream.MemoryStorage
	_, err = js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
	return cfg.Name
}

// open opens a stream.
func open(t testing.TB, js jetstream.JetStream, cfg nats.Config) *nats.Backend {
	t.Helper()
	db, err := nats.Open(t.Context(), js, cfg)
	require.NoError(t, err)
	return db
}

func TestSuiteThroughTwoHandles(t *testing.T) {
	one := func(t testing.TB) string { return serve(t).ClientURL() }
	for name, c := range map[string]struct {
		serve  func(testing.TB) string
		create func(testing.TB, jetstream.JetStream) string
	}{
		"in memory":  {one, newStreamInMemory},
		"in files":   {one, newStream},
		"in cluster": {func(t testing.TB) string { return serveCluster(t)[0].ClientURL() }, newReplicatedStream},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "in memory" && *cycles < 10 {
				t.Skip("it takes a minute; with -cycles=10 it runs")
			}
			t.Parallel()
			runSuite(t, c.serve(t), c.create)
		})
	}
}

func runSuite(t *testing.T, url string, create func(testing.TB, jetstream.JetStream) string) {
	one, two := connect(t, url), connect(t, url)
	storetest.Run(t, func(t *testing.T) storetest.Database {
		cfg := nats.Config{Stream: create(t, one), History: 2000, Poll: 5 * time.Millisecond}
		handles := []*nats.Backend{open(t, one, cfg), open(t, two, cfg)}
		for _, h := range handles {
			h.SetGrace(40 * time.Millisecond)
		}
		fillers := 0
		t.Cleanup(func() { require.NoError(t, one.DeleteStream(context.Background(), cfg.Stream)) })
		return storetest.Database{
			Handles:   []backend.Backend{handles[0], handles[1]},
			Remembers: 2000,
			Expire: func(kind string) error {
				fillers++
				r, err := put(t.Context(), handles[1], kind, fmt.Sprint("filler", fillers), "{}")
				if err != nil {
					return err
				}
				return handles[0].Forget(t.Context(), r.Version-1)
			},
		}
	})
}
