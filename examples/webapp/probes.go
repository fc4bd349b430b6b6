package main

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/informer"
)

// probes asks each replica for its health, again and again.
type probes struct {
	replicas *informer.Informer[string, machine.Replica]
	machine  *machine.Machine
	interval time.Duration // from one probe to the next
	timeout  time.Duration // of a probe
}

// Reconcile probes one replica, as long as it runs.
func (c *probes) Reconcile(ctx context.Context, id string) (controller.Result, error) {
	r, ok := c.replicas.Get(id)
	if !ok || r.State == machine.Starting || r.State == machine.Stopping {
		return controller.Result{}, nil
	}
	probe, cancel := context.WithTimeout(ctx, c.timeout)
	err := c.machine.Probe(probe, r)
	cancel()
	if ctx.Err() != nil {
		return controller.Result{}, context.Cause(ctx) // the probe was called off: that says nothing of the replica
	}
	c.machine.ReportHealth(id, err == nil)
	return controller.Result{RequeueAfter: c.interval}, nil
}
