//go:build linux

package main

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/setpoint-go/setpoint/internal/servertest"
)

// databases start each kind of database, and return a function that makes an empty one and returns its address.
var databases = map[string]func(t *testing.T) (empty func() string){
	"etcd": func(t *testing.T) func() string {
		return func() string { return "etcd://" + startEtcd(t) }
	},
	"mysql": func(t *testing.T) func() string {
		server := servertest.MariaDB(t, "innodb-flush-log-at-trx-commit=2")
		n := 0
		return func() string {
			n++
			name := fmt.Sprintf("test%d", n)
			admin, err := sql.Open("mysql", "root@tcp("+server.Addr()+")/")
			require.NoError(t, err)
			_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
			require.NoError(t, err)
			require.NoError(t, admin.Close())
			return "mysql://root@" + server.Addr() + "/" + name
		}
	},
	"nats": func(t *testing.T) func() string {
		return func() string { return "nats://" + startNATS(t) }
	},
	"postgres": func(t *testing.T) func() string {
		server := servertest.Postgres(t, "fsync=off")
		n := 0
		return func() string {
			n++
			name := fmt.Sprintf("test%d", n)
			admin, err := pgx.Connect(t.Context(), "postgres://postgres@"+server.Addr()+"/postgres")
			require.NoError(t, err)
			_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
			require.NoError(t, err)
			require.NoError(t, admin.Close(t.Context()))
			return "postgres://postgres@" + server.Addr() + "/" + name
		}
	},
	"sqlite": func(t *testing.T) func() string {
		return func() string { return "sqlite:" + filepath.Join(t.TempDir(), "webapp.db") }
	},
}

// startEtcd starts a server in this process, and returns the address for clients.
func startEtcd(t *testing.T) string {
	t.Helper()
	cfg := embed.NewConfig()
	anywhere := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = anywhere, anywhere
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anywhere, anywhere
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.Dir, cfg.UnsafeNoFsync, cfg.TickMs, cfg.ElectionMs = t.TempDir(), true, 20, 200
	cfg.LogLevel, cfg.LogOutputs = "panic", []string{os.DevNull}
	etcd, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(etcd.Close)
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(generous):
		t.Fatal("the server is not ready")
	}
	return etcd.Clients[0].Addr().String()
}

// startNATS starts a server in this process, and returns its address.
func startNATS(t *testing.T) string {
	t.Helper()
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() {
		nats.Shutdown()
		nats.WaitForShutdown()
	})
	require.True(t, nats.ReadyForConnections(generous), "the server is not ready")
	return nats.Addr().String()
}
