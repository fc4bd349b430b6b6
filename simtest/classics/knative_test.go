package classics_test

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// knative8539 is https://github.com/knative/serving/issues/8539. A revision becomes ready when its autoscaler is active. The
// autoscaler becomes active, and scales to zero soon. If the controller does not look in between, the revision never becomes ready.
//
// The fix has the autoscaler say, for good, that it was active once.
func knative8539(fixed bool) simtest.World {
	type autoscaler struct{ Active, WasActive bool }
	type revision struct {
		Image  string
		Status struct{ Ready bool } `store:"status"`
	}
	return simtest.World{
		Systems: []simtest.System{{Name: "knative", New: func(env *simtest.Env) ([]simtest.Part, error) {
			revisions, seen := simtest.Mirror[revision](env, "revision")
			_, scalers := simtest.Mirror[autoscaler](env, "autoscaler")
			return loop("knative", controller.Config[string]{}, func(ctx context.Context, key string) error {
				r, ok := seen.Get(key)
				if !ok || r.Value.Status.Ready {
					return nil
				}
				a, ok := scalers.Get(key)
				if !ok || !a.Value.Active && !(fixed && a.Value.WasActive) {
					return nil
				}
				r.Value.Status.Ready = true
				_, err := revisions.UpdateStatus(ctx, r)
				return err
			}, controller.For(seen), controller.Watches(scalers, func(_ context.Context, o store.Object[autoscaler]) ([]string, error) {
				return []string{o.Key}, nil
			}))
		}}},
		Steps: []simtest.Step{
			simtest.Create("revision", store.Object[revision]{Key: "blue", Value: revision{Image: "blue:1"}}),
			simtest.Create("autoscaler", store.Object[autoscaler]{Key: "blue", Value: autoscaler{}}),
			simtest.Update("autoscaler", "blue", func(a *autoscaler) { a.Active, a.WasActive = true, true }),
			simtest.Update("autoscaler", "blue", func(a *autoscaler) { a.Active = false }),
		},
	}
}
