package resultanderror

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type Site struct{}

var errBusy = errors.New("busy")

func wrong(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if err != nil {
			return controller.Result{RequeueAfter: time.Minute}, err // want `this delay is ignored, because an error is returned beside it: .*chapter 4`
		}
		switch site.Key {
		case "a":
			return controller.Result{RequeueAfter: time.Minute}, fmt.Errorf("site %s", key) // want `this delay is ignored`
		case "b":
			return controller.Result{RequeueAfter: time.Minute}, errBusy // want `this delay is ignored`
		}
		return controller.Result{RequeueAfter: time.Minute}, retry.NotYet(errBusy, time.Second) // want `this delay is ignored`
	}, controller.Config[string]{})
}

type loop struct{}

func (loop) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return reconcile.Result{}, errBusy
	}
	return reconcile.Result{Requeue: true}, nil // want `each success requests the next reconcile`
}

type once struct{}

func (once) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name == "" {
		return reconcile.Result{Requeue: true}, nil
	}
	return reconcile.Result{}, nil
}

func spins(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		if _, err := sites.Get(ctx, key); err != nil {
			return controller.Result{}, err
		}
		return controller.Result{RequeueAfter: -1}, nil // want `each success requests the next reconcile at once`
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		if _, err := sites.Get(ctx, key); err != nil {
			return controller.Result{RequeueAfter: time.Nanosecond}, nil // only now and then
		}
		return controller.Result{}, nil
	}, controller.Config[string]{})
}

func right(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, err := sites.Get(ctx, key)
		if err != nil {
			return controller.Result{}, err
		}
		if err != nil {
			err = nil
			return controller.Result{RequeueAfter: time.Minute}, err
		}
		_, err = sites.Delete(ctx, key)
		return controller.Result{RequeueAfter: time.Minute}, err // used if the deletion succeeds
	}, controller.Config[string]{})
}

func joined(sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, err := sites.Get(ctx, key)
		if err != nil {
			_, failed := sites.UpdateStatus(ctx, site)
			return controller.Result{RequeueAfter: time.Minute}, errors.Join(err, failed) // want `this delay is ignored`
		}
		_, failed := sites.UpdateStatus(ctx, site)
		return controller.Result{RequeueAfter: time.Minute}, errors.Join(err, failed) // used if all succeeds
	}, controller.Config[string]{})
}

// An object that is not there does not end the loop of one that is.
func spinsIfThere(cached *store.Informer[Site], sites store.Store[Site]) {
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		_, ok := cached.Get(key)
		switch {
		case !ok:
			return controller.Result{}, nil
		case key == "":
			return controller.Result{}, errBusy
		}
		return controller.Result{RequeueAfter: time.Duration(30)}, nil // want `each success requests the next reconcile at once`
	}, controller.Config[string]{})
	controller.New("sites", func(ctx context.Context, key string) (controller.Result, error) {
		site, ok := cached.Get(key)
		if !ok || len(site.Labels) == 0 {
			return controller.Result{}, nil // nothing is left to do
		}
		return controller.Result{RequeueAfter: 1}, nil
	}, controller.Config[string]{})
}
