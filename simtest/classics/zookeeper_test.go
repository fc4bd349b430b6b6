package classics_test

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// zookeeper312 is https://github.com/pravega/zookeeper-operator/issues/312. The controller deletes volumes by name when it sees that
// a cluster is being deleted. A process whose cache shows the past sees the deletion of an earlier cluster of the same name, and
// deletes the volume of the one that lives.
//
// The fix looks whether the cluster that it has seen is still the one that is stored, and deletes the volume of that cluster only.
func zookeeper312(fixed bool) simtest.World {
	type cluster struct{ Size int }
	type volume struct {
		Size int
		Data string
	}
	const cleanup = "cleanup"
	return simtest.World{
		Systems: []simtest.System{{Name: "zookeeper", New: func(env *simtest.Env) ([]simtest.Part, error) {
			clusters, seen := simtest.Mirror[cluster](env, "cluster")
			volumes := simtest.Open[volume](env, "volume")
			return loop("zookeeper", controller.Config[string]{}, func(ctx context.Context, key string) error {
				c, ok := seen.Get(key)
				if !ok {
					return nil
				}
				if fixed {
					stored, err := clusters.Get(ctx, key)
					if errors.Is(err, store.ErrNotFound) || err == nil && stored.UID != c.UID {
						return nil // an event of what is stored will come
					} else if err != nil {
						return err
					}
					c = stored
				}
				v, err := volumes.Get(ctx, key)
				exists := err == nil
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				if c.Deleting.IsZero() {
					_, err := store.CreateOrUpdate(ctx, volumes, key, func(o *store.Object[volume]) error {
						o.Value.Size = c.Value.Size
						o.Owners = []store.OwnerRef{{Ref: c.Ref(), Controller: true}}
						return nil
					})
					return err
				}
				if exists && (!fixed || v.Owners[0].UID == c.UID) {
					var pre []store.Precondition
					if fixed {
						pre = append(pre, store.IfUID(v.UID))
					}
					if _, err := volumes.Delete(ctx, key, pre...); err != nil && !errors.Is(err, store.ErrNotFound) {
						return err
					}
				}
				_, err = store.Patch(ctx, clusters, key, func(o *store.Object[cluster]) error {
					if o.UID == c.UID {
						o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == cleanup })
					}
					return nil
				})
				if errors.Is(err, store.ErrNotFound) {
					return nil
				}
				return err
			}, controller.For(seen))
		}}},
		Steps: []simtest.Step{
			simtest.Create("cluster", store.Object[cluster]{Key: "zk", Value: cluster{1}, Finalizers: []string{cleanup}}),
			simtest.Delete[cluster]("cluster", "zk"),
			simtest.Create("cluster", store.Object[cluster]{Key: "zk", Value: cluster{1}, Finalizers: []string{cleanup}}),
			simtest.Update("volume", "zk", func(v *volume) { v.Data = "of the second cluster" }),
			simtest.Update("cluster", "zk", func(c *cluster) { c.Size = 2 }),
		},
	}
}
