package main

import (
	"context"
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/events"
	"github.com/setpoint-go/setpoint/examples/tenants/cloud"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
)

// tenants makes a Tenant of each row, and Resources of each Tenant. It does not call the cloud: resources does.
type tenants struct {
	row      func(ctx context.Context, key string) (row Row, found bool, err error) // from the table
	cached   func(key string) (row Row, found bool)                                 // from a cache of the table
	objects  store.Store[Tenant]
	owned    store.Store[Resource]
	children *owner.Children[Resource]
	actual   *informer.Informer[string, cloud.Resource] // the resources in the cloud, listed at intervals
	lookEach time.Duration                              // how often it is listed
	record   *events.Recorder
}

// reconcile brings one tenant in line with its row.
//
// It reads the row from the table. A stale cache might lack an existing row, and everything that the tenant has would be deleted. But while the
// cache shows another row, no event may tell of the next change: if that undoes the one which the cache has not seen, nothing has changed for the
// cache. So reconcile comes back until both are the same.
func (t *tenants) reconcile(ctx context.Context, key string) (controller.Result, error) {
	row, found, err := t.row(ctx, key)
	if err != nil {
		return controller.Result{}, err
	}
	cached, ok := t.cached(key)
	ahead := found != ok || row != cached
	tenant, err := t.adopt(ctx, key, row, found)
	if err != nil {
		return controller.Result{}, err
	}
	var result controller.Result
	if tenant.UID != "" {
		result, err = t.reach(ctx, tenant)
	}
	switch noPlan := errors.Is(err, errNoPlan); {
	case noPlan && ahead:
		err = retry.NotYet(err, t.lookEach)
	case noPlan:
		err = retry.Permanent(err) // until the row changes: see gaveUp
	case err == nil && ahead:
		result.RequeueAfter = t.lookEach
	}
	return result, tried(tenant.UID, tenant.Generation, err)
}

// reach does what a tenant needs.
func (t *tenants) reach(ctx context.Context, tenant store.Object[Tenant]) (controller.Result, error) {
	if !tenant.Deleting.IsZero() {
		left, err := owner.Cascade(ctx, t.objects, tenant.Key, t.children) // its resources are deleted before it
		if err != nil || left > 0 {
			return controller.Result{}, err
		}
		if _, err := t.objects.Get(ctx, tenant.Key); !errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, err // another finalizer holds it
		}
		t.record.Normal(tenant.Ref(), "Gone", "nothing is left of it")
		return t.reconcile(ctx, tenant.Key) // the row may be there again, and perhaps no event tells that the tenant is gone: see owner.Cascade
	}
	want, err := tenant.Value.resources()
	if err != nil {
		return controller.Result{}, err
	}
	have, err := t.children.Apply(ctx, tenant.Ref(), want)
	if err != nil {
		return controller.Result{}, err
	}
	settled, err := t.compare(ctx, have)
	if err != nil {
		return controller.Result{}, err
	}
	if err := t.report(ctx, tenant, len(want), have); err != nil || settled {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: t.lookEach}, nil // a resource may have vanished before the first list that could show it
}

// adopt copies the row into the Tenant, and returns the Tenant. Without a row, it begins the deletion of the Tenant. If there is
// neither a row nor a Tenant, it returns the zero Tenant.
func (t *tenants) adopt(ctx context.Context, key string, row Row, found bool) (store.Object[Tenant], error) {
	if !found {
		tenant, err := t.objects.Delete(ctx, key)
		return tenant, ignore(err, store.ErrNotFound)
	}
	return store.CreateOrUpdate(ctx, t.objects, key, func(o *store.Object[Tenant]) error {
		o.Value.Row = row
		if o.UID == "" {
			o.Finalizers = []string{string(owner.Foreground)}
		}
		return nil
	})
}

// compare looks for resources that differ in the cloud, and marks them, so that they are made again. It returns false if the last
// list of the cloud is too old to tell.
func (t *tenants) compare(ctx context.Context, have []store.Object[Resource]) (settled bool, err error) {
	settled = true
	listed := t.actual.Version() // before the cache is read, so the cache may only be newer
	for i, r := range have {
		actual, _ := t.actual.Get(r.Key)
		if lost(r, actual, listed) {
			r.Value.Conditions.Set(store.Condition{Type: "InCloud", Reason: "Lost", Message: "the cloud has lost or changed it"})
			if have[i], err = t.owned.UpdateStatus(ctx, r); err != nil {
				return false, err
			}
			t.record.Warning(r.Ref(), "Lost", "the cloud has lost or changed it")
		}
		settled = settled && listed >= r.Value.Revision
	}
	return settled, nil
}

// report writes the status of a tenant, given the number of wanted resources and the existing ones.
func (t *tenants) report(ctx context.Context, tenant store.Object[Tenant], want int, have []store.Object[Resource]) error {
	ready := store.Condition{Type: "Ready", OK: true, Reason: "Done", Message: "everything is there"}
	if len(have) < want {
		ready = store.Condition{Type: "Ready", Reason: "Waiting", Message: "what was there before is still being removed"}
	}
	for _, r := range have {
		if c, _ := r.Value.Conditions.Get("InCloud"); pending(r) && ready.Reason != "Parked" {
			ready = store.Condition{Type: "Ready", Reason: "Waiting", Message: r.Value.Kind + ": the cloud has to be called"}
			if c.Reason == "Parked" && c.Generation == r.Generation {
				ready.Reason, ready.Message = c.Reason, r.Value.Kind+": "+c.Message
			}
		}
	}
	ready.Generation = tenant.Generation
	return t.set(ctx, tenant, ready)
}

// gaveUp is called before a tenant is parked. Its status says so, and why, until the row changes.
func (t *tenants) gaveUp(ctx context.Context, key string, why error) error {
	tenant, err := t.objects.Get(ctx, key)
	if err != nil {
		return ignore(err, store.ErrNotFound)
	}
	parked := store.Condition{Type: "Ready", Reason: "Parked", Message: why.Error(), Generation: generationOf(tenant.UID, why)}
	return t.set(ctx, tenant, parked)
}

// set writes a condition into the status of a tenant, and records an event for people.
func (t *tenants) set(ctx context.Context, tenant store.Object[Tenant], now store.Condition) error {
	was, _ := tenant.Value.Conditions.Get(now.Type)
	tenant.Value.Conditions.Set(now)
	if _, err := t.objects.UpdateStatus(ctx, tenant); err != nil {
		return err
	}
	switch {
	case now.Reason == was.Reason && now.Message == was.Message:
	case now.OK:
		t.record.Normal(tenant.Ref(), now.Type, now.Message)
	case now.Reason == "Parked":
		t.record.Warning(tenant.Ref(), now.Reason, now.Message)
	}
	return nil
}

// triedError is the error of a reconcile that has acted on one generation of its object.
type triedError struct {
	error
	uid        string
	generation int64
}

func (e *triedError) Unwrap() error { return e.error }

// tried returns err with the object, by UID, and the generation that was tried, or nil if err is nil.
func tried(uid string, generation int64, err error) error {
	if err == nil {
		return nil
	}
	return &triedError{err, uid, generation}
}

// generationOf returns the generation that was tried of the object with the given UID, for a condition that says so: the object may have
// changed since. It returns 0 if the reconcile failed before it had read the object, or if the object was deleted and created again since.
func generationOf(uid string, err error) int64 {
	if e := (*triedError)(nil); errors.As(err, &e) && e.uid == uid {
		return e.generation
	}
	return 0
}

// ignore returns err, or nil if it is the given error.
func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}
