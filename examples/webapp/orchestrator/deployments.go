package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/machine"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/expectations"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// host runs replicas: a *machine.Machine.
type host interface {
	Start(ctx context.Context, s machine.Spec) error
	Stop(ctx context.Context, id string) error
	Kill(ctx context.Context, id string) error
	Drain(id string)
	Probe(ctx context.Context, r machine.Replica) error
	ReportHealth(id string, probe error)
}

// deployments keeps the replicas of each Deployment alive: real processes of this machine.
type deployments struct {
	deployments mirror[Deployment]
	manifests   *informer.Informer[string, manifest.Manifest]
	byApp       *cache.Index[string, string, machine.Replica] // of the cache of replicas
	machine     host
	busy        func(addr string) bool // whether a replica has connections, or may still get one
	events      *events.Recorder

	// expected holds the replicas that were started or stopped, until the cache shows that. A count in an older cache
	// would start replicas twice, or stop too many. So the controller holds the deployment until the cache has caught up.
	// It waits at most for the duration patience, because a replica that dies at once may never appear.
	expected *expectations.Tracked[string, string]

	// ended holds the replicas that are being ended and are not gone, by ID, with the time since when. All other replicas
	// end by accident.
	ended sync.Map
}

// Reconcile takes the next step of one deployment and writes its status.
func (c *deployments) Reconcile(ctx context.Context, app string) (controller.Result, error) {
	var replicas []machine.Replica
	for _, r := range c.byApp.All(app) {
		replicas = append(replicas, r)
	}
	d, ok := c.deployments.cache.Get(app)
	if !ok {
		return c.remove(ctx, app, replicas)
	}

	p := planFor(d.Value.Spec, replicas)
	if err := c.stop(ctx, app, p.kill, c.machine.Kill, "Killed", "it hangs"); err != nil {
		return controller.Result{}, err
	}
	if err := c.stop(ctx, app, p.stop, c.drain, "Stopping", "it is not needed any more"); err != nil {
		return controller.Result{}, err
	}
	if err := c.start(ctx, d, p.start); err != nil {
		return controller.Result{}, err
	}
	if err := c.writeStatus(ctx, d, p, replicas); err != nil {
		return controller.Result{}, err
	}
	return c.escalate(ctx, replicas)
}

// remove stops the replicas of a deployment that does not exist, unless it is about to: after a restart the store is
// empty, and the coming deployments adopt the running replicas.
func (c *deployments) remove(ctx context.Context, app string, replicas []machine.Replica) (controller.Result, error) {
	if _, wanted := c.manifests.Get(app); wanted {
		return controller.Result{}, nil
	}
	var ids []string
	for _, r := range replicas {
		if r.State != machine.Stopping {
			ids = append(ids, r.ID)
		}
	}
	if err := c.stop(ctx, app, ids, c.machine.Stop, "Stopping", "its deployment is gone"); err != nil {
		return controller.Result{}, err
	}
	if len(replicas) > 0 {
		return controller.Result{RequeueAfter: grace}, nil
	}
	return controller.Result{}, nil
}

// start starts n replicas. It records the expectation first: the event may arrive before the call returns.
func (c *deployments) start(ctx context.Context, d store.Object[Deployment], n int) error {
	if n == 0 {
		return nil
	}
	spec := d.Value.Spec
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%s-%05x", d.Key, spec.Revision()[:4], rand.Uint32N(1<<20))
	}
	c.expected.ExpectCreations(d.Key, ids...)
	for i, id := range ids {
		err := c.machine.Start(ctx, machine.Spec{ID: id, App: d.Key, Revision: spec.Revision(), Message: spec.Message})
		if err != nil {
			for _, id := range ids[i:] {
				c.expected.CreationObserved(d.Key, id) // there will be no event
			}
			c.events.Warning(d.Ref(), "StartFailed", err.Error())
			return err
		}
		c.events.Normal(d.Ref(), "Started", "replica "+id)
	}
	return nil
}

// stop ends replicas in one of three ways.
func (c *deployments) stop(
	ctx context.Context, app string, ids []string, end func(ctx context.Context, id string) error, reason, why string,
) error {
	c.expected.ExpectDeletions(app, ids...)
	var errs []error
	for _, id := range ids {
		_, again := c.ended.LoadOrStore(id, time.Now())
		if err := end(ctx, id); err != nil {
			if !again {
				c.ended.Delete(id)
			}
			c.expected.DeletionObserved(app, id) // there will be no event
			errs = append(errs, err)
			continue
		}
		c.events.Normal(store.Ref{Kind: kindDeployment, Key: app}, reason, "replica "+id+": "+why)
	}
	return errors.Join(errs...)
}

// drain begins the graceful end of a replica: its service removes it from the load balancer, and escalate stops it when
// its last connection has ended.
func (c *deployments) drain(_ context.Context, id string) error {
	c.machine.Drain(id)
	return nil
}

// escalate stops the replicas that have drained, and calls Stop again for those that were told to stop. After their grace
// they are killed.
func (c *deployments) escalate(ctx context.Context, replicas []machine.Replica) (controller.Result, error) {
	var result controller.Result
	var errs []error
	for _, r := range replicas {
		switch {
		case r.State == machine.Draining && c.mustWait(r):
			result.RequeueAfter = drainCheck
		case r.State == machine.Draining || r.State == machine.Stopping:
			errs = append(errs, c.machine.Stop(ctx, r.ID))
			result.RequeueAfter = cmp.Or(result.RequeueAfter, grace)
		}
	}
	return result, errors.Join(errs...)
}

// mustWait reports whether a replica that drains still has connections, and still has time to drain.
func (c *deployments) mustWait(r machine.Replica) bool {
	since, ok := c.ended.Load(r.ID)
	return ok && time.Since(since.(time.Time)) < drainLimit && c.busy(r.Addr())
}

// writeStatus writes the state from before the steps just taken.
func (c *deployments) writeStatus(ctx context.Context, d store.Object[Deployment], p plan, replicas []machine.Replica) error {
	spec, status := d.Value.Spec, d.Value.Status
	status.Ready = 0
	current := 0
	for _, r := range replicas {
		if r.State == machine.Ready {
			status.Ready++
			current += count(r.Revision == spec.Revision())
		}
	}
	if p.start == 0 && len(p.stop) == 0 && len(p.kill) == 0 && current == spec.Replicas {
		status.Rolled, status.Reached = spec, true
	}
	_, err := report(ctx, c.deployments, d, status)
	return err
}

// watch records expected events and wakes the deployment of a replica.
func (c *deployments) watch(add func(app string)) informer.Handler[string, machine.Replica] {
	return informer.Handler[string, machine.Replica]{
		OnAdd: func(r machine.Replica, inInitialList bool) {
			if inInitialList {
				c.events.Normal(store.Ref{Kind: kindDeployment, Key: r.App}, "Found", "replica "+r.ID+" runs already")
			}
			c.expected.CreationObserved(r.App, r.ID)
			add(r.App)
		},
		OnUpdate: func(old, r machine.Replica) {
			if r.State != old.State {
				c.recordState(r)
			}
			if r.State == machine.Draining || r.State == machine.Stopping {
				c.expected.DeletionObserved(r.App, r.ID)
			}
			add(r.App)
		},
		OnDelete: func(t cache.Tombstone[string, machine.Replica]) {
			r := t.Object
			if _, told := c.ended.LoadAndDelete(r.ID); !told {
				c.events.Warning(store.Ref{Kind: kindDeployment, Key: r.App}, "Died", fmt.Sprintf("replica %s, process %d", r.ID, r.PID))
			}
			c.expected.CreationObserved(r.App, r.ID)
			c.expected.DeletionObserved(r.App, r.ID)
			add(r.App)
		},
	}
}

func (c *deployments) recordState(r machine.Replica) {
	ref := store.Ref{Kind: kindDeployment, Key: r.App}
	switch r.State {
	case machine.Ready:
		c.events.Normal(ref, "Ready", fmt.Sprintf("replica %s, process %d at %s", r.ID, r.PID, r.Addr()))
	case machine.Unhealthy:
		c.events.Warning(ref, "Unhealthy", fmt.Sprintf("replica %s, process %d does not answer", r.ID, r.PID))
	}
}

// readyBackends returns the addresses of the replicas that can serve, in order.
func readyBackends(byApp *cache.Index[string, string, machine.Replica], app string) []string {
	var addrs []string
	for _, r := range byApp.All(app) {
		if r.State == machine.Ready {
			addrs = append(addrs, r.Addr())
		}
	}
	slices.Sort(addrs)
	return addrs
}
