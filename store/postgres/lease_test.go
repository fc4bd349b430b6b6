//go:build linux

package postgres_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/internal/servertest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store/postgres"
)

func TestSchemaHoldsLeases(t *testing.T) {
	server := servertest.Postgres(t, "fsync=off")
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		// A pool of its own: a case restarts the server, which breaks the connections of a shared one.
		cfg := postgres.Config{Schema: newSchema(t, connect(t, server.Addr()))}
		proxy := servertest.NewProxy(t, server.Addr())
		leases := func(addr string) leaderelect.LeaseStore { return dbtest.Leases(t, open(t, connect(t, addr), cfg)) }
		return leasetest.Backend{
			Store:    leases(proxy.Addr()),
			Reopen:   func() leaderelect.LeaseStore { return leases(server.Addr()) },
			Drop:     proxy.Stall,
			Heal:     proxy.Heal,
			CutReply: proxy.CutNextReply,
			Restart:  server.Restart,
		}
	})
}
