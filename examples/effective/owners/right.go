package owners

import (
	"context"
	"errors"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/store"
)

// NewRight returns a controller that records the owner in each volume, and a collector of volumes whose cluster is gone.
func NewRight(clusters store.Store[Cluster], volumes store.Store[Volume]) (c, collector *controller.Controller[string], err error) {
	cached, err := informer.New(clusters, store.Key, informer.Config{Name: "clusters"})
	if err != nil {
		return nil, nil, err
	}
	cachedVolumes, err := informer.New(volumes, store.Key, informer.Config{Name: "volumes"})
	if err != nil {
		return nil, nil, err
	}
	children := owner.NewChildren(volumes, cachedVolumes)
	c, err = controller.New("clusters", func(ctx context.Context, key string) (controller.Result, error) {
		cluster, err := clusters.Get(ctx, key) // the store has the current UID of the key; the cache may not
		if errors.Is(err, store.ErrNotFound) {
			return controller.Result{}, nil // the collector deletes the volume
		} else if err != nil {
			return controller.Result{}, err
		}
		want := map[string]Volume{key: {Size: cluster.Value.Size}}
		_, err = children.Apply(ctx, cluster.Ref(), want) // the reference has the UID
		return controller.Result{}, err
	}, controller.Config[string]{}, controller.For(cached), controller.Owns(cachedVolumes, "cluster"))
	if err != nil {
		return nil, nil, err
	}
	collector, err = controller.NewCollector(children, clusters, cached, controller.Config[string]{})
	return c, collector, err
}
