package etcd_test

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/setpoint-go/setpoint/store/etcd"
)

// member is one member of a cluster of embedded servers.
type member struct {
	Dir, Name, Client, Peer string
	DialPeer                string // what the others dial, if it is not Peer
	Cluster                 string // "name=http://peer,...", of all
	Quota                   int64  // 0 for the default
}

// alone returns the member of a cluster of one, on free ports.
func alone(dir string) member {
	return member{Dir: dir, Name: "one", Client: "127.0.0.1:0", Peer: "127.0.0.1:0", Cluster: "one=http://127.0.0.1:0"}
}

// config is that of a server which is quick: it does not wait for the disk, and elects within milliseconds.
func (m member) config() *embed.Config {
	at := func(addr string) []url.URL { return []url.URL{{Scheme: "http", Host: addr}} }
	c := embed.NewConfig()
	c.Dir, c.Name, c.InitialCluster, c.QuotaBackendBytes = m.Dir, m.Name, m.Cluster, m.Quota
	c.ListenClientUrls, c.AdvertiseClientUrls = at(m.Client), at(m.Client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = at(m.Peer), at(cmp.Or(m.DialPeer, m.Peer))
	c.UnsafeNoFsync, c.TickMs, c.ElectionMs = true, 20, 200
	c.LogLevel, c.LogOutputs = "panic", []string{os.DevNull}
	return c
}

// server is a server in the process of the test.
type server struct {
	*embed.Etcd
	addr string // of its clients
}

// startServer starts a cluster of one member until the test ends.
func startServer(t testing.TB, change ...func(c *embed.Config)) server {
	t.Helper()
	c := alone(t.TempDir()).config()
	for _, f := range change {
		f(c)
	}
	e, err := embed.StartEtcd(c)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("the server is not ready after 30s")
	}
	return server{e, e.Clients[0].Addr().String()}
}

// pool lends servers to tests that run at once. Each has one for itself, because a compaction is one of the whole server.
type pool struct {
	mu sync.Mutex
	// mu guards the following.
	idle []server
}

// borrow returns a server that is given back when t ends. of outlives t, and starts the server if none is there.
func (p *pool) borrow(t, of testing.TB) server {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var s server
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		s = startServer(of)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, s)
	})
	return s
}

// connect returns a client until the test ends. addrs are separated by commas.
func connect(t testing.TB, addrs string, change ...func(c *clientv3.Config)) *clientv3.Client {
	t.Helper()
	c, err := dial(addrs, change...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func dial(addrs string, change ...func(c *clientv3.Config)) (*clientv3.Client, error) {
	c := clientv3.Config{
		Endpoints: strings.Split(addrs, ","), Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	}
	for _, f := range change {
		f(&c)
	}
	return clientv3.New(c)
}

// prefixes counts the prefixes of all tests.
var prefixes atomic.Int32

func newPrefix() string { return fmt.Sprint("test/", prefixes.Add(1)) }

// open opens a prefix through a client of its own.
func open(t testing.TB, addrs string, cfg etcd.Config) *etcd.Backend {
	t.Helper()
	db, err := etcd.Open(t.Context(), connect(t, addrs), cfg)
	require.NoError(t, err)
	return db
}
