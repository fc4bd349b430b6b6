//go:build unix

package simtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/simtest"
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
		w := simtest.World{Systems: []simtest.System{systemOf(func(env *simtest.Env) []simtest.Part {
			copies := func(from, to string) simtest.Part {
				_, in := simtest.Mirror[number](env, from)
				tos := simtest.Open[number](env, to)
				return loopOf(to, in, just(func(ctx context.Context, key string) error {
					o, ok := in.Get(key)
					if !ok {
						return nil
					}
					return put(ctx, tos, key, o.Value.N)
				}))
			}
			return []simtest.Part{copies("from", "mid"), copies("mid", "to")}
		})}}
		for i := range n {
			key := fmt.Sprint("x", i)
			w.Steps = append(w.Steps, create("from", key, 1), change("from", key, 2))
		}
		return w
	}
}
