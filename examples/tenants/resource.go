package main

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// cleanup is the finalizer of a Resource: it stays until the cloud has removed its resource.
const cleanup = "example.com/cloud"

// caller calls the cloud. Repeating a call does no harm.
type caller interface {
	Put(ctx context.Context, r store.Object[Resource]) (informer.Version, error)
	Delete(ctx context.Context, r store.Object[Resource]) error
}

// resources keeps the cloud in line with each Resource: one call for each reconcile. So the queue decides the order of the calls,
// and the many resources of one customer do not delay the few of another.
type resources struct {
	objects store.Store[Resource]
	cloud   caller
}

// reconcile makes or removes one resource.
func (r *resources) reconcile(ctx context.Context, key string) (controller.Result, error) {
	var uid string // of the object that was tried
	var generation int64
	var made informer.Version // the revision of the cloud, if it was called
	call := owner.Finalizer[Resource]{
		Name: cleanup,
		Apply: func(ctx context.Context, o store.Object[Resource]) (err error) {
			uid, generation = o.UID, o.Generation
			if pending(o) {
				made, err = r.cloud.Put(ctx, o)
			}
			return err
		},
		Cleanup: func(ctx context.Context, o store.Object[Resource]) error {
			uid, generation = o.UID, o.Generation
			return r.cloud.Delete(ctx, o)
		},
	}
	o, live, err := call.Reconcile(ctx, r.objects, key)
	if err != nil || !live || made == 0 {
		return controller.Result{}, tried(uid, generation, err) // retried after a backoff, at the time of the gate, or never: see gaveUp
	}
	o.Value.Revision = made
	o.Value.Conditions.Set(store.Condition{Type: "InCloud", OK: true, Reason: "Done", Generation: o.Generation})
	_, err = r.objects.UpdateStatus(ctx, o)
	return controller.Result{}, tried(uid, generation, err)
}

// work adds a resource if it needs a call of the cloud.
func work(_ context.Context, o store.Object[Resource]) ([]string, error) {
	if pending(o) {
		return []string{o.Key}, nil
	}
	return nil, nil
}

// newWork ignores the writes of the reconcile itself.
func newWork(old, new store.Object[Resource]) bool {
	return pending(new) && (!pending(old) || store.GenerationChanged(old, new))
}

// gaveUp is called before a resource is parked. Its status and that of the tenant say why.
func (r *resources) gaveUp(ctx context.Context, key string, why error) error {
	_, err := store.PatchStatus(ctx, r.objects, key, func(o *store.Object[Resource]) error {
		o.Value.Conditions.Set(store.Condition{Type: "InCloud", Reason: "Parked", Message: reason(why), Generation: generationOf(o.UID, why)})
		return nil
	})
	return ignore(err, store.ErrNotFound)
}
