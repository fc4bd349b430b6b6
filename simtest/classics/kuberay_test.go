package classics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// kuberay715 is https://github.com/ray-project/kuberay/issues/715. The controller counts the pods in its cache, and creates those
// that are missing, under generated names. A cache that does not show its own writes yet makes it create too many. (A controller
// of this library waits for its own writes; StaleReads turns that off.)
//
// The fix gives each pod a name of its own: a second creation is refused.
func kuberay715(fixed bool) simtest.World {
	type cluster struct {
		Workers int
		Status  struct{ Ready int } `store:"status"`
	}
	type pod struct{ Image string }
	generated := 0
	return simtest.World{
		Systems: []simtest.System{{Name: "ray", New: func(env *simtest.Env) ([]simtest.Part, error) {
			clusters, seen := simtest.Mirror[cluster](env, "cluster")
			pods, seenPods := simtest.Mirror[pod](env, "pod")
			return loop("ray", controller.Config[string]{StaleReads: true}, func(ctx context.Context, key string) error {
				c, ok := seen.Get(key)
				if !ok {
					return nil
				}
				have := slices.Sorted(maps.Keys(maps.Collect(seenPods.All())))
				for i := len(have); i < c.Value.Workers; i++ {
					name := fmt.Sprintf("%s-%d", key, i)
					if !fixed {
						generated++
						name = fmt.Sprintf("%s-x%d", key, generated)
					}
					if _, err := pods.Create(ctx, store.Object[pod]{Key: name}); err != nil && !errors.Is(err, store.ErrExists) {
						return err
					}
				}
				for i := c.Value.Workers; i < len(have); i++ {
					if _, err := pods.Delete(ctx, have[i]); err != nil && !errors.Is(err, store.ErrNotFound) {
						return err
					}
				}
				c.Value.Status.Ready = len(have)
				_, err := clusters.UpdateStatus(ctx, c)
				return err
			}, controller.For(seen), controller.Watches(seenPods, func(context.Context, store.Object[pod]) ([]string, error) {
				return []string{"ray"}, nil
			}))
		}}},
		Steps: []simtest.Step{
			simtest.Create("cluster", store.Object[cluster]{Key: "ray", Value: cluster{Workers: 2}}),
			simtest.Update("cluster", "ray", func(c *cluster) { c.Workers = 3 }),
		},
		Always: func(v *simtest.View) error {
			const limit = 3
			if n := len(simtest.List[pod](v, "pod")); n > limit {
				return fmt.Errorf("there are %d pods, and at most %d were ever wanted", n, limit)
			}
			return nil
		},
		Goal: func(v *simtest.View) error {
			if n := len(simtest.List[pod](v, "pod")); n != 3 {
				return fmt.Errorf("there are %d pods, and not 3", n)
			}
			return nil
		},
	}
}
