//go:build linux

package nats_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/nats"
)

// serveCluster starts three servers of one cluster until the test ends.
func serveCluster(t testing.TB) []*server.Server {
	t.Helper()
	var routes []string
	for range 3 {
		routes = append(routes, "nats://"+servertest.FreeAddr(t))
	}
	var servers []*server.Server
	for i, route := range routes {
		here, err := url.Parse(route)
		require.NoError(t, err)
		options := &server.Options{
			ServerName: fmt.Sprint("server", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
			NoLog: true, NoSigs: true, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		}
		options.Cluster.Name, options.Cluster.Host = "test", here.Hostname()
		_, err = fmt.Sscan(here.Port(), &options.Cluster.Port)
		require.NoError(t, err)
		s, err := server.NewServer(options)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers = append(servers, s)
	}
	return servers
}

// newReplicatedStream creates a stream with three replicas, as soon as the cluster can.
func newReplicatedStream(t testing.TB, js jetstream.JetStream) string {
	t.Helper()
	cfg, err := nats.StreamConfig(nats.Config{Stream: fmt.Sprintf("test_%d", streams.Add(1))})
	require.NoError(t, err)
	cfg.Replicas = 3
	createEventually(t, js, cfg)
	return cfg.Name
}

// createEventually creates the stream as soon as the server can: a cluster refuses a stream while it has no leader, and a server may refuse
// one that has just been deleted, because it still removes the empty directories of the former one.
func createEventually(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) {
	t.Helper()
	for begin := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := js.CreateStream(ctx, cfg)
		cancel()
		if err == nil {
			return
		}
		require.Less(t, time.Since(begin), 30*time.Second, err)
		time.Sleep(50 * time.Millisecond)
	}
}

// The leader of the stream moves, and a server stops, while one writer writes. No acknowledged write is lost, and a
// watch on another server yields every change once.
func TestLeaderChangeLosesNothing(t *testing.T) {
	servers := serveCluster(t)
	var all []string
	for _, s := range servers {
		all = append(all, s.ClientURL())
	}
	js, other := connect(t, strings.Join(all, ",")), connect(t, strings.Join(all, ","))
	cfg := nats.Config{Stream: newReplicatedStream(t, js), Timeout: 2 * time.Second}
	db, watched := open(t, js, cfg), open(t, other, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reported := make(chan backend.Change, 1000)
	go func() { // ends with ctx
		for at, begun := informer.Version(0), false; ctx.Err() == nil; begun = true {
			if begun {
				time.Sleep(10 * time.Millisecond)
			}
			for c, err := range watched.Watch(ctx, "app", backend.Query{}, at) {
				if err != nil {
					break // and continues after the last version
				}
				if at = c.Version; c.Record.Key != "" {
					reported <- c
				}
			}
		}
	}()
	want := map[string]informer.Version{}
	for i := range 60 {
		switch i {
		case 20:
			_, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.LEADER.STEPDOWN."+cfg.Stream, nil)
			require.NoError(t, err)
		case 40:
			leader := leaderOf(ctx, t, js, cfg.Stream)
			for _, s := range servers {
				if s.Name() == leader {
					s.Shutdown()
				}
			}
		}
		key := fmt.Sprint(i)
		for {
			r, err := put(ctx, db, "app", key, "1", backend.Fence{Lease: "shop", Term: uint64(i/10 + 1)})
			if err == nil {
				want[key] = r.Version
				break
			}
			require.NoError(t, ctx.Err(), err)
		}
	}
	last := informer.Version(0)
	for len(want) > 0 {
		select {
		case c := <-reported:
			assert.Greater(t, c.Version, last)
			if last = c.Version; want[c.Record.Key] == c.Version {
				delete(want, c.Record.Key) // what had been written without an acknowledgment was written again
			}
		case <-ctx.Done():
			t.Fatalf("not yielded: %v", want)
		}
	}
}

func leaderOf(ctx context.Context, t testing.TB, js jetstream.JetStream, name string) string {
	t.Helper()
	s, err := js.Stream(ctx, name)
	require.NoError(t, err)
	return s.CachedInfo().Cluster.Leader
}
