package classics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// cassandra398 is https://github.com/instaclustr/cassandra-operator/issues/398. The controller deletes the volume of a pod when it
// sees that the pod is being deleted. If the cache goes from a pod that lives to no pod at all, the volume is never deleted.
//
// The fix deletes every volume that no pod is to have.
func cassandra398(fixed bool) simtest.World {
	type cluster struct{ Replicas int }
	type pod struct{ Node string }
	type volume struct{ Size int }
	const kubelet = "kubelet"
	ofCluster := func(_ context.Context, o store.Object[pod]) ([]string, error) {
		name, _, _ := strings.Cut(o.Key, "-")
		return []string{name}, nil
	}
	return simtest.World{
		Systems: []simtest.System{
			{Name: "cassandra", New: func(env *simtest.Env) ([]simtest.Part, error) {
				_, clusters := simtest.Mirror[cluster](env, "cluster")
				pods, seen := simtest.Mirror[pod](env, "pod")
				volumes := simtest.Open[volume](env, "volume")
				return loop("cassandra", controller.Config[string]{}, func(ctx context.Context, key string) error {
					c, ok := clusters.Get(key)
					if !ok {
						return nil
					}
					wanted := make(map[string]bool)
					for i := range c.Value.Replicas {
						name := fmt.Sprintf("%s-%d", key, i)
						wanted[name] = true
						if _, err := volumes.Create(ctx, store.Object[volume]{Key: name}); err != nil && !errors.Is(err, store.ErrExists) {
							return err
						}
						p := store.Object[pod]{Key: name, Finalizers: []string{kubelet}}
						if _, err := pods.Create(ctx, p); err != nil && !errors.Is(err, store.ErrExists) {
							return err
						}
					}
					removeVolume := func(name string) error {
						_, err := volumes.Delete(ctx, name)
						if errors.Is(err, store.ErrNotFound) {
							return nil
						}
						return err
					}
					for i := range 3 { // in order, so that every run is the same
						p, ok := seen.Get(fmt.Sprintf("%s-%d", key, i))
						switch {
						case !ok || wanted[p.Key]:
						case p.Deleting.IsZero():
							if _, err := pods.Delete(ctx, p.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
								return err
							}
						case !fixed:
							if err := removeVolume(p.Key); err != nil {
								return err
							}
						}
					}
					if !fixed {
						return nil
					}
					all, err := volumes.List(ctx)
					for _, v := range all.Items {
						if !wanted[v.Key] {
							err = errors.Join(err, removeVolume(v.Key))
						}
					}
					return err
				}, controller.For(clusters), controller.Watches(seen, ofCluster))
			}},
			{Name: kubelet, Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
				pods, seen := simtest.Mirror[pod](env, "pod")
				return loop(kubelet, controller.Config[string]{}, func(ctx context.Context, key string) error {
					if p, ok := seen.Get(key); !ok || p.Deleting.IsZero() {
						return nil
					}
					_, err := store.Patch(ctx, pods, key, func(o *store.Object[pod]) error {
						o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == kubelet })
						return nil
					})
					return err
				}, controller.For(seen))
			}},
		},
		Steps: []simtest.Step{
			simtest.Create("cluster", store.Object[cluster]{Key: "db", Value: cluster{2}}),
			simtest.Update("cluster", "db", func(c *cluster) { c.Replicas = 1 }),
		},
	}
}
