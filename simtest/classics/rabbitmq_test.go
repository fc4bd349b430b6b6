package classics_test

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// rabbitmq782 is https://github.com/rabbitmq/cluster-operator/issues/782. A larger volume takes two writes, and the guard looks
// at the first of them only. A process that ends between the two never makes the second.
//
// The fix looks at both.
func rabbitmq782(fixed bool) simtest.World {
	type volume struct{ Size int }
	return simtest.World{
		Systems: []simtest.System{{Name: "rabbitmq", New: func(env *simtest.Env) ([]simtest.Part, error) {
			_, clusters := simtest.Mirror[volume](env, "cluster")
			sets, seen := simtest.Mirror[volume](env, "set")
			claims := simtest.Open[volume](env, "claim")
			return loop("rabbitmq", controller.Config[string]{Reads: []controller.Informer{seen}}, func(ctx context.Context, key string) error {
				cluster, ok := clusters.Get(key)
				if !ok {
					return nil
				}
				if set, ok := seen.Get(key); ok && set.Value == cluster.Value && !fixed {
					return nil
				}
				resize := func(o *store.Object[volume]) error { o.Value = cluster.Value; return nil }
				if _, err := store.CreateOrUpdate(ctx, sets, key, resize); err != nil {
					return err
				}
				_, err := store.CreateOrUpdate(ctx, claims, key, resize)
				return err
			}, controller.For(clusters))
		}}},
		Steps: []simtest.Step{
			simtest.Create("cluster", store.Object[volume]{Key: "mq", Value: volume{10}}),
			simtest.Update("cluster", "mq", func(v *volume) { v.Size = 15 }),
		},
	}
}
