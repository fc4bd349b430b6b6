package orchestrator

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/balancer"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/store"
)

// portRetry is how often a port that another program uses is tried again.
const portRetry = time.Second

// services runs a load balancer over the ready replicas of each Service.
type services struct {
	*controller.Controller[string]
	services mirror[Service]
	byApp    *cache.Index[string, string, machine.Replica] // of the cache of replicas
	events   *events.Recorder
	log      *slog.Logger

	// mu is held from reading the replicas until the load balancer has its update, so that busy never runs in between. It
	// guards the following.
	mu        sync.Mutex
	balancers balancers // of the current Run; nil before the first
}

// balancers is a load balancer for each service, by name.
type balancers interface {
	Ensure(name string, port int, backends []string) error
	Remove(name string)
	Address(name string) string // "" without a load balancer
	Busy(addr string) bool
}

// balancerSet has the load balancers of a *balancer.Set.
type balancerSet struct{ *balancer.Set }

func (s balancerSet) Address(name string) string {
	if b, ok := s.Get(name); ok {
		return b.Addr().String()
	}
	return ""
}

// Run runs the controller, and closes the load balancers when it has ended, because the next leader needs their ports.
func (c *services) Run(ctx context.Context) error {
	set, err := balancer.NewSet(balancer.Config{Logger: c.log})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.balancers = balancerSet{set}
	c.mu.Unlock()
	err = c.Controller.Run(ctx)
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// An error means that a connection was cut because its client did not close it, as the limit intends.
	_ = set.Close(soon)
	return err
}

// Reconcile opens, moves, updates, or closes the load balancer of one service and writes its status.
func (c *services) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	s, ok := c.services.cache.Get(name)
	if !ok {
		c.balancers.Remove(name)
		return controller.Result{}, nil
	}
	status, err := c.tell(name, s.Value.Spec)
	result := controller.Result{}
	if err != nil {
		status.Problem = err.Error()
		result.RequeueAfter = portRetry
	}
	return result, c.writeStatus(ctx, s, status)
}

// tell gives the load balancer of a service the ready replicas, and returns its status.
func (c *services) tell(name string, spec ServiceSpec) (ServiceStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	backends := readyBackends(c.byApp, name)
	err := c.balancers.Ensure(name, spec.Port, backends)
	return ServiceStatus{Backends: len(backends), Address: c.balancers.Address(name)}, err
}

// busy reports whether a replica has connections, or may still get one. If the cache shows that a replica is not ready,
// and busy is false, it stays false.
func (c *services) busy(addr string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.balancers != nil && c.balancers.Busy(addr)
}

func (c *services) writeStatus(ctx context.Context, s store.Object[Service], status ServiceStatus) error {
	was, err := report(ctx, c.services, s, status)
	if err != nil {
		return err
	}
	if status.Problem != was.Problem && status.Problem != "" {
		c.events.Warning(s.Ref(), "NoListener", status.Problem)
	}
	if status.Address != was.Address && status.Address != "" {
		c.events.Normal(s.Ref(), "Listening", "at "+status.Address+" for port "+strconv.Itoa(s.Value.Spec.Port))
	}
	return nil
}
