package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/informer"
)

// probes checks the health of each replica at intervals.
type probes struct {
	replicas *informer.Informer[string, machine.Replica]
	machine  host
	interval time.Duration // from one probe to the next
	timeout  time.Duration // of a probe
}

// Reconcile probes one replica, as long as it runs.
func (c *probes) Reconcile(ctx context.Context, id string) (controller.Result, error) {
	r, ok := c.replicas.Get(id)
	if !ok || r.State == machine.Starting || r.State == machine.Draining || r.State == machine.Stopping {
		return controller.Result{}, nil
	}
	probe, cancel := context.WithTimeout(ctx, c.timeout)
	err := c.machine.Probe(probe, r)
	cancel()
	c.machine.ReportHealth(id, err)
	if err != nil && !errors.Is(err, machine.ErrUnhealthy) {
		return controller.Result{}, err // the probe could not be made
	}
	return controller.Result{RequeueAfter: c.interval}, nil
}
