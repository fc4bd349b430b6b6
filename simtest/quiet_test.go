package simtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// made returns a system of one controller of the kind from. made is called for each process, with the store of the kind to.
func made(make func(env *simtest.Env, tos store.Store[number]) reconciler) simtest.System {
	return systemOf(func(env *simtest.Env) []simtest.Part {
		_, from := simtest.Mirror[number](env, "from")
		return []simtest.Part{loopOf("c", from, make(env, simtest.Open[number](env, "to")))}
	})
}

// In each world, a system has something left to do when the horizon ends, because a fault has come late, or has ended late. Another system
// keeps time passing: it looks at each object once a minute.
func TestConsequencesOfFaultAreAwaited(t *testing.T) {
	clock := made(func(*simtest.Env, store.Store[number]) reconciler {
		return func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Minute}, nil
		}
	})
	clock.Name, clock.Trusted = "clock", true
	for name, c := range map[string]struct {
		plan   string
		system func() simtest.System
		want   []string
	}{
		"a fault right before the horizon": {"lose-request(s create to/a#1)", func() simtest.System {
			return made(func(_ *simtest.Env, tos store.Store[number]) reconciler {
				waited := false
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !waited {
						waited = true
						return controller.Result{RequeueAfter: 7 * time.Minute}, nil
					}
					err := ensure(ctx, tos, key)
					if errors.Is(err, simtest.ErrLost) {
						err = retry.NotYet(err, 30*time.Second)
					}
					return controller.Result{}, err
				}
			})
		}, []string{"7m0s s.1 FAULT", "7m30s s.1 create to/a"}},
		"a process that comes back": {"down(s create to/first#1)", func() simtest.System {
			warm := true // the first process needs no time to warm up
			return made(func(_ *simtest.Env, tos store.Store[number]) reconciler {
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !warm {
						warm = true
						return controller.Result{RequeueAfter: 30 * time.Second}, nil
					}
					warm = false
					return controller.Result{}, errors.Join(ensure(ctx, tos, "first"), ensure(ctx, tos, "second"))
				}
			})
		}, []string{"0s s.1 CRASH", "7m0s s.2 starts", "7m30s s.2 create to/second"}},
		"a call that arrives": {"late(s effect reset#1 by 1)", func() simtest.System {
			there, n := false, 0
			return made(func(env *simtest.Env, tos store.Store[number]) reconciler {
				reset := false
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !reset {
						reset = true
						return controller.Result{RequeueAfter: -1}, env.Effect(ctx, "reset", func(context.Context) error { there = false; return nil })
					}
					if there {
						return controller.Result{RequeueAfter: time.Minute}, nil
					}
					there = true
					n++
					return controller.Result{RequeueAfter: time.Minute}, put(ctx, tos, key, n)
				}
			})
		}, []string{"0s s.2 create to/a", `7m0s s.1 its call "reset" arrives`, "8m0s s.2 update to/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inModes(t, func(t *testing.T, mode string) {
				inOrder(t, simtest.Timeline(t, func() simtest.World {
					w := worldWith(mode, c.system(), clock)
					w.Steps = w.Steps[:1]
					return w
				}, c.plan), c.want...)
			})
		})
	}
}

// A reconcile may take longer than the horizon.
func TestReconcileInFlightIsAwaited(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, func() simtest.World {
			return worldWith(mode, made(func(_ *simtest.Env, tos store.Store[number]) reconciler {
				return just(func(ctx context.Context, key string) error {
					time.Sleep(20 * time.Minute)
					return ensure(ctx, tos, key)
				})
			}))
		}, "")
		inOrder(t, text, "STEP create", "20m0s s.1 create to/a", "STEP change", "20m1s user update from/a", "40m1s s.1 refused")
	})
}
