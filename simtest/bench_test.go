//go:build unix

package simtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// BenchmarkPlan is the cost of a plan for worlds of two controllers, by the number of objects that the user creates. Read the metrics
// cpu-µs/plan, and cpu-µs/line, which must not grow with the number of objects.
func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			simtest.MeasurePlans(b, twoControllers(n))
		})
	}
	b.Run("farms", func(b *testing.B) { simtest.MeasurePlans(b, farms("main", true, owner.Foreground)) })
}

// twoControllers is a world in which one controller copies from/x to mid/x, and another copies that to to/x. The user creates n objects,
// and changes each of them.
func twoControllers(n int) func() simtest.World {
	return func() simtest.World {
		copies := func(env *simtest.Env, from, to string) (simtest.Part, error) {
			quiet := slog.New(slog.DiscardHandler)
			froms, tos := simtest.Open[number](env, from), simtest.Open[number](env, to)
			seen, err := informer.New(froms, store.Key, informer.Config{Name: from, Logger: quiet})
			if err != nil {
				return nil, err
			}
			c, err := controller.New(to, func(ctx context.Context, key string) (controller.Result, error) {
				o, ok := seen.Get(key)
				if !ok {
					return controller.Result{}, nil
				}
				_, err := store.CreateOrUpdate(ctx, tos, nil, key, func(c *store.Object[number]) error {
					c.Value = o.Value
					return nil
				})
				return controller.Result{}, err
			}, controller.Config[string]{Logger: quiet}, controller.For(seen))
			return simtest.Loop(c), err
		}
		w := simtest.World{Systems: []simtest.System{{Name: "copies", New: func(env *simtest.Env) ([]simtest.Part, error) {
			first, err := copies(env, "from", "mid")
			if err != nil {
				return nil, err
			}
			second, err := copies(env, "mid", "to")
			return []simtest.Part{first, second}, err
		}}}}
		for i := range n {
			key := fmt.Sprint("x", i)
			w.Steps = append(w.Steps, simtest.Step{Name: "create " + key, Do: func(ctx context.Context, user *simtest.User) error {
				_, err := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: key, Value: number{1}})
				return err
			}}, simtest.Step{Name: "change " + key, Do: func(ctx context.Context, user *simtest.User) error {
				_, err := store.Patch(ctx, simtest.Open[number](user, "from"), key, func(o *store.Object[number]) error {
					o.Value.N = 2
					return nil
				})
				return err
			}})
		}
		return w
	}
}
