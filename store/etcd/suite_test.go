package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store/backend"
	"github.com/setpoint-go/setpoint/store/etcd"
	"github.com/setpoint-go/setpoint/store/storetest"
)

func TestSuiteThroughTwoHandles(t *testing.T) {
	t.Parallel()
	var servers pool
	storetest.Run(t, func(c *testing.T) storetest.Database {
		c.Parallel()
		addr, cfg := servers.borrow(c, t).addr, etcd.Config{Prefix: newPrefix(), Poll: 20 * time.Millisecond}
		return storetest.Database{
			Handles:   []backend.Backend{open(c, addr, cfg), open(c, addr, cfg)},
			Remembers: 100_000,
			Expire:    func(string) error { compact(c, connect(c, addr)); return nil },
		}
	})
}

// compact makes the cluster forget its history.
func compact(t testing.TB, c *clientv3.Client) {
	t.Helper()
	// A revision of its own, so that the last change is compacted too.
	now, err := c.Put(t.Context(), "compact", "")
	require.NoError(t, err)
	_, err = c.Compact(t.Context(), now.Header.Revision)
	require.NoError(t, err)
}

func TestClusterHoldsLeases(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		cfg := etcd.Config{Prefix: newPrefix()}
		leases := func() leaderelect.LeaseStore { return dbtest.Leases(t, open(t, s.addr, cfg)) }
		return leasetest.Backend{Store: leases(), Reopen: leases}
	})
}

func TestOvertakenWriteRestarts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	dbtest.OvertakenWriteRestarts(t, open(t, s.addr, etcd.Config{}), open(t, s.addr, etcd.Config{}))
}
