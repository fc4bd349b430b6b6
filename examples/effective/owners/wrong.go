package owners

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/store"
)

// NewWrong returns a controller that assumes that the volume with the name of a cluster belongs to the cluster.
func NewWrong(clusters store.Store[Cluster], volumes store.Store[Volume]) (*controller.Controller[string], error) {
	cached, err := informer.New(clusters, store.Key, informer.Config{Name: "clusters"})
	if err != nil {
		return nil, err
	}
	return controller.New("clusters", func(ctx context.Context, key string) (controller.Result, error) {
		cluster, ok := cached.Get(key)
		if !ok {
			return controller.Result{}, nil
		}
		if !cluster.Deleting.IsZero() {
			if _, err := volumes.Delete(ctx, key); err != nil && !errors.Is(err, store.ErrNotFound) {
				return controller.Result{}, err
			}
			return controller.Result{}, release(ctx, clusters, key)
		}
		_, err := store.CreateOrUpdate(ctx, volumes, key, func(o *store.Object[Volume]) error {
			o.Value.Size = cluster.Value.Size
			return nil
		})
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached))
}

// release removes the finalizer from the cluster, so that it can be deleted.
func release(ctx context.Context, clusters store.Store[Cluster], key string) error {
	_, err := store.Patch(ctx, clusters, key, func(o *store.Object[Cluster]) error {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == Cleanup })
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
