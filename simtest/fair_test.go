package simtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// As in production, a leader reconciles nothing before its caches show everything from before its term.
func TestNewLeaderWaitsForItsCaches(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, inMode(mode, led), "travel(s update to/a#1 back 2)")
		inOrder(t, text, "s.2 FAULT it starts, and its caches begin at version 2", "s.2 its caches catch up", "s.2 copy: reconcile a")
		require.NotContains(t, text, "seeing", "it reconciles from the present")
	})
}

// A step of the user comes early only after the steps before it, and not in the same second.
func TestEarlyStepDoesNotOvertakeStep(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		a := store.Object[number]{Key: "a", Value: number{2}, Finalizers: []string{"keep"}}
		world := func(takes time.Duration, more ...simtest.Step) func() simtest.World {
			steps := append([]simtest.Step{simtest.Create("from", a)}, more...)
			steps = append(steps, simtest.Create("from", a).Named("again"), simtest.Create("from", store.Object[number]{Key: "b"}).Named("last"))
			return func() simtest.World {
				return simtest.World{Mode: mode, Systems: []simtest.System{keeper(takes)}, Steps: steps}
			}
		}
		text := simtest.Timeline(t, world(0), "early(s delete from/a#1)")
		inOrder(t, text, "STEP create from/a", "1s user FAULT STEP again comes early", "user cannot do it yet", "STEP again", "STEP last")

		// The step "again" waits until the object is gone. Meanwhile, a reconcile asks for the last one.
		const takes = 7*time.Minute + 3500*time.Millisecond // a little longer than the horizon, so that the step begins
		a.Value.N = 1
		enough := simtest.Update("from", "a", func(n *number) { n.N = 2 })
		text = simtest.Timeline(t, world(takes, enough), "early(s delete from/a#2)")
		inOrder(t, text, "STEP again", "s.1 delete from/a", "user create from/a", "STEP last")
	})
}

// A key that is not finished gets one more attempt after each fault, however far beyond the horizon that is.
func TestUnfinishedKeyIsTriedAgainAfterFault(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				o, ok := s.from.Get(key)
				if !ok || o.Value.N != 1 {
					return nil
				}
				if age := time.Since(o.Created); age < 24*time.Hour {
					return retry.NotYet(errors.New("too young"), 24*time.Hour-age)
				}
				if err := s.report(ctx); err != nil {
					return retry.NotYet(err, 24*time.Hour)
				}
				return ensure(ctx, s.tos, key)
			})
			w.Steps = w.Steps[:1]
			return w
		})
		for _, plan := range []string{"", "lose-request(s effect report#1)", "lose-request(s effect report#1) lose-request(s effect report#2)"} {
			text := simtest.Timeline(t, world, plan)
			require.Contains(t, text, "create to/a", plan)
		}
	})
}

// So does the key that a step of the user waits for.
func TestStepWaitsForOneMoreAttempt(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				if _, ok := s.from.Get(key); !ok {
					return nil
				}
				if err := ensure(ctx, s.tos, key); err != nil {
					return retry.NotYet(err, 24*time.Hour)
				}
				return nil
			})
			w.Steps = []simtest.Step{w.Steps[0], simtest.Update("to", "a", func(n *number) { n.N = 7 })}
			w.Goal = func(*simtest.View) error { return nil }
			return w
		})
		for _, plan := range []string{"", "lose-request(s create to/a#1)", "lose-request(s create to/a#1) lose-request(s create to/a#2)"} {
			require.Contains(t, simtest.Timeline(t, world, plan), "update to/a", plan)
		}
		never := func() simtest.World {
			w := world()
			w.Steps[1] = simtest.Update("to", "b", func(*number) {})
			return w
		}
		require.NotEmpty(t, simtest.Explore(t, never).Failures, "it waits in vain")
	})
}
