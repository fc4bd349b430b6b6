package main

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// cleanup is the finalizer of a Resource: it does not go before the cloud has removed what was made for it.
const cleanup = "example.com/cloud"

// caller calls the cloud. Repeating a call does no harm.
type caller interface {
	Put(ctx context.Context, r store.Object[Resource]) (informer.Version, error)
	Delete(ctx context.Context, r store.Object[Resource]) error
}

// resources makes in the cloud what each Resource says: one call for each reconcile. So the queue decides whose turn the next call
// is, and the many resources of one customer do not delay the few of another.
type resources struct {
	objects store.Store[Resource]
	cloud   caller
}

// reconcile makes one resource, or removes it.
func (r *resources) reconcile(ctx context.Context, key string) (controller.Result, error) {
	var made informer.Version // the revision of the cloud, if it was called
	call := owner.Finalizer[Resource]{
		Name: cleanup,
		Apply: func(ctx context.Context, o store.Object[Resource]) (err error) {
			if pending(o) {
				made, err = r.cloud.Put(ctx, o)
			}
			return err
		},
		Cleanup: r.cloud.Delete,
	}
	o, live, err := call.Reconcile(ctx, r.objects, key)
	if err != nil || !live || made == 0 {
		return controller.Result{}, err // again after a backoff, when the gate says, or never: see gaveUp
	}
	o.Value.Revision = made
	o.Value.Conditions.Set(store.Condition{Type: "InCloud", OK: true, Reason: "Done", Generation: o.Generation})
	_, err = r.objects.UpdateStatus(ctx, o)
	return controller.Result{}, err
}

// work adds a resource if the cloud has to be called for it.
func work(_ context.Context, o store.Object[Resource]) ([]string, error) {
	if pending(o) {
		return []string{o.Key}, nil
	}
	return nil, nil
}

// newWork leaves out what the reconcile itself has written.
func newWork(old, new store.Object[Resource]) bool {
	return pending(new) && (!pending(old) || store.GenerationChanged(old, new))
}

// gaveUp is called before a resource is parked. The status says why, and so does that of the tenant.
func (r *resources) gaveUp(ctx context.Context, key string, why error) error {
	_, err := store.PatchStatus(ctx, r.objects, key, func(o *store.Object[Resource]) error {
		o.Value.Conditions.Set(store.Condition{Type: "InCloud", Reason: "Parked", Message: reason(why), Generation: o.Generation})
		return nil
	})
	return ignore(err, store.ErrNotFound)
}
