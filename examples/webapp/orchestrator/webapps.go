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

// webapps gives each WebApp its Deployment and its Service, and writes back how it is doing.
type webapps struct {
	apps        mirror[WebApp]
	deployments mirror[Deployment]
	services    mirror[Service]
	events      *events.Recorder
}

// Reconcile brings the children of one app in line with its spec, and its status in line with them. The children of an
// app that is gone are the business of the collectors.
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

// running says what a user can do with an app that is as it should be.
func running(s WebAppStatus) string {
	if s.Ready == 0 {
		return "no replicas are wanted, so nothing answers at http://" + s.Address + "/"
	}
	return counted(s.Ready, "replica") + " ready, open http://" + s.Address + "/"
}

// ensure creates the child of an app, or brings its spec in line, and returns it as it should now be: zero while a child
// of the same name that belongs to another app, deleted since, has not been collected. Its going brings the app back
// here.
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
			return child, nil // the cache lags behind; the event that it waits for brings the app back here
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
	var was Spec // as it is in the store, which the cache may lag behind
	changed, err := store.Patch(ctx, children, app.Key, func(o *store.Object[Resource[Spec, Status]]) error {
		was, o.Value.Spec = o.Value.Spec, spec
		return nil
	}, store.IfUID(old.UID))
	if errors.Is(err, store.ErrNotFound) {
		return child, nil // deleted meanwhile
	}
	if err == nil && was != spec {
		recorder.Normal(old.Ref(), "Updated", "for app "+app.Key)
	}
	return changed.Value, err
}
