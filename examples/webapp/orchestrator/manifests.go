package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/webapp/manifest"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// manifests keeps one WebApp in the store for each manifest in the directory.
type manifests struct {
	cache  *informer.Informer[string, manifest.Manifest]
	apps   mirror[WebApp]
	events *events.Recorder
}

// Reconcile creates, updates, or deletes the WebApp with that name.
func (c *manifests) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	app, err := c.apps.Get(ctx, name)
	exists := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return controller.Result{}, err
	}
	m, wanted := c.cache.Get(name)
	spec := WebAppSpec{Replicas: m.Replicas, Port: m.Port, Message: m.Message}

	switch {
	case wanted && !exists:
		app, err = c.apps.Create(ctx, store.Object[WebApp]{Key: name, Value: WebApp{Spec: spec}})
		if err != nil {
			return controller.Result{}, err
		}
		c.events.Normal(app.Ref(), "Created", fmt.Sprintf("%s at port %d", counted(spec.Replicas, "replica"), spec.Port))
	case wanted && app.Value.Spec != spec:
		old := app.Value.Spec
		app, err = store.Patch(ctx, c.apps, name, func(o *store.Object[WebApp]) error {
			o.Value.Spec = spec
			return nil
		}, store.IfUID(app.UID))
		if err != nil {
			return controller.Result{}, err
		}
		c.events.Normal(app.Ref(), "Updated", changes(old, spec))
	case !wanted && exists:
		if _, err := c.apps.Delete(ctx, name, store.IfUID(app.UID)); err != nil {
			return controller.Result{}, err
		}
		c.events.Normal(app.Ref(), "Deleted", "its manifest is gone")
	}
	return controller.Result{}, nil
}

// changes describes the difference between two specs.
func changes(old, spec WebAppSpec) string {
	var s string
	if old.Replicas != spec.Replicas {
		s += fmt.Sprintf(", replicas %d to %d", old.Replicas, spec.Replicas)
	}
	if old.Port != spec.Port {
		s += fmt.Sprintf(", port %d to %d", old.Port, spec.Port)
	}
	if old.Message != spec.Message {
		s += ", another message"
	}
	return s[len(", "):]
}
