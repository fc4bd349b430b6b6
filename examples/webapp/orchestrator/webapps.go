package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// webapps gives each WebApp its Deployment and its Service, and writes its status.
type webapps struct {
	apps        mirror[WebApp]
	deployments mirror[Deployment]
	services    mirror[Service]
	events      *events.Recorder
}

// Reconcile brings the children of one app in line with its spec, and its status in line with them. The collectors
// delete the children of an app that is gone.
func (c *webapps) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	app, ok := c.apps.cache.Get(name)
	if !ok {
		return controller.Result{}, nil
	}
	spec := app.Value.Spec
	deployment, err := ensure(ctx, c.events, c.deployments, app, DeploymentSpec{Replicas: spec.Replicas, Message: spec.Message})
	if err != nil {
		return controller.Result{}, err
	}
	service, err := ensure(ctx, c.events, c.services, app, ServiceSpec{Port: spec.Port})
	if err != nil {
		return controller.Result{}, err
	}

	status := statusOf(spec, deployment, service)
	was, err := report(ctx, c.apps, app, status)
	if err == nil && status.Phase != was.Phase {
		c.recordPhase(app, status)
	}
	return controller.Result{}, err
}

func (c *webapps) recordPhase(app store.Object[WebApp], s WebAppStatus) {
	switch s.Phase {
	case Degraded:
		c.events.Warning(app.Ref(), string(s.Phase), s.Problem)
	case Running:
		c.events.Normal(app.Ref(), string(s.Phase), running(s))
	default:
		c.events.Normal(app.Ref(), string(s.Phase), fmt.Sprintf("%s ready, %d wanted", counted(s.Ready, "replica"), app.Value.Spec.Replicas))
	}
}

// running returns a message for the user of a running app.
func running(s WebAppStatus) string {
	if s.Ready == 0 {
		return "no replicas are wanted, so nothing answers at http://" + s.Address + "/"
	}
	return counted(s.Ready, "replica") + " ready, open http://" + s.Address + "/"
}

// ensure creates the child of an app, or updates its spec, and returns the child. It returns zero while a child with the
// same name that belongs to an earlier, deleted app has not been collected. The end of that child triggers another
// reconcile of the app.
func ensure[Spec, Status comparable](
	ctx context.Context, recorder *events.Recorder, children mirror[Resource[Spec, Status]], app store.Object[WebApp], spec Spec,
) (child Resource[Spec, Status], err error) {
	child.Spec = spec
	old, ok := children.cache.Get(app.Key)
	if !ok {
		o := store.Object[Resource[Spec, Status]]{Key: app.Key, Value: child}
		if err := owner.SetController(&o, app.Ref()); err != nil {
			return child, err
		}
		o, err = children.Create(ctx, o)
		if errors.Is(err, store.ErrExists) {
			return child, nil // the cache lags behind; its next event triggers another reconcile
		}
		if err == nil {
			recorder.Normal(o.Ref(), "Created", "for app "+app.Key)
		}
		return child, err
	}
	if ref, ok := owner.ControllerOf(old); !ok || ref.UID != app.UID {
		return Resource[Spec, Status]{}, nil
	}
	if old.Value.Spec == spec {
		return old.Value, nil
	}
	var was Spec // the spec in the store, which the cache may lag behind
	changed, err := store.Patch(ctx, children, app.Key, func(o *store.Object[Resource[Spec, Status]]) error {
		was, o.Value.Spec = o.Value.Spec, spec
		return nil
	}, store.IfUID(old.UID))
	if errors.Is(err, store.ErrNotFound) {
		return child, nil // deleted in the meantime
	}
	if err == nil && was != spec {
		recorder.Normal(old.Ref(), "Updated", "for app "+app.Key)
	}
	return changed.Value, err
}
