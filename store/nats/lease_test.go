package nats_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/internal/dbtest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/leasetest"
	"github.com/setpoint-go/setpoint/store/nats"
)

func TestStreamHoldsLeases(t *testing.T) {
	t.Parallel()
	url := serve(t).ClientURL()
	js := connect(t, url)
	leasetest.Run(t, func(t *testing.T) leasetest.Backend {
		cfg := nats.Config{Stream: newStreamInMemory(t, js)}
		leases := func() leaderelect.LeaseStore { return dbtest.Leases(t, open(t, connect(t, url), cfg)) }
		return leasetest.Backend{Store: leases(), Reopen: leases}
	})
}
