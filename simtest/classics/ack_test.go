package classics_test

import (
	"context"
	"fmt"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// ack2062 is https://github.com/aws-controllers-k8s/community/issues/2062. The controller creates a network in a cloud, and then
// writes its ID into the status. A process that ends in between creates another network.
//
// The fix gives the cloud a token, the UID of the object: the cloud returns the network that it has created for it before.
func ack2062(fixed bool) simtest.World {
	type network struct {
		CIDR   string
		Status struct{ ID string } `store:"status"`
	}
	var ids []string                   // in the cloud
	byToken := make(map[string]string) // in the cloud
	return simtest.World{
		Systems: []simtest.System{{Name: "ack", New: func(env *simtest.Env) ([]simtest.Part, error) {
			networks, seen := simtest.Mirror[network](env, "network")
			return loop("ack", controller.Config[string]{}, func(ctx context.Context, key string) error {
				n, ok := seen.Get(key)
				if !ok || n.Value.Status.ID != "" {
					return nil
				}
				var id string
				if err := env.Effect(ctx, "create-network", func(context.Context) error {
					if id = byToken[n.UID]; id != "" && fixed {
						return nil
					}
					id = fmt.Sprintf("net-%d", len(ids)+1)
					ids = append(ids, id)
					byToken[n.UID] = id
					return nil
				}); err != nil {
					return err
				}
				n.Value.Status.ID = id
				_, err := networks.UpdateStatus(ctx, n)
				return err
			}, controller.For(seen))
		}}},
		Steps: []simtest.Step{simtest.Create("network", store.Object[network]{Key: "front", Value: network{CIDR: "10.0.0.0/8"}})},
		Goal: func(v *simtest.View) error {
			n, err := simtest.Open[network](v, "network").Get(context.Background(), "front")
			switch {
			case err != nil:
				return err
			case len(ids) != 1 || n.Value.Status.ID != ids[0]:
				return fmt.Errorf("the cloud has the networks %v, and the status says %q", ids, n.Value.Status.ID)
			}
			return nil
		},
	}
}
