package simtest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

type reconciler = func(context.Context, string) (controller.Result, error)

// systemOf returns a system of one controller, which reconciles the objects of the kind from. made is called for each process.
func systemOf(name string, made func(env *simtest.Env, from *store.Informer[number]) reconciler) simtest.System {
	return simtest.System{Name: name, New: func(env *simtest.Env) ([]simtest.Part, error) {
		quiet := slog.New(slog.DiscardHandler)
		from, err := informer.New(simtest.Open[number](env, "from"), store.Key, informer.Config{Name: "from", Logger: quiet})
		if err != nil {
			return nil, err
		}
		c, err := controller.New(name, made(env, from), controller.Config[string]{Logger: quiet}, controller.For(from))
		return []simtest.Part{simtest.Loop(c)}, err
	}}
}

// clock is a system that keeps time passing: it looks at each object once a minute.
func clock() simtest.System {
	s := systemOf("clock", func(*simtest.Env, *store.Informer[number]) reconciler {
		return func(context.Context, string) (controller.Result, error) {
			return controller.Result{RequeueAfter: time.Minute}, nil
		}
	})
	s.Trusted = true
	return s
}

// In each world, a system has something left to do when the horizon ends, because a fault has come late, or has ended late.
func TestConsequencesOfFaultAreAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		plan   string
		system func() simtest.System
		want   []string
	}{
		"a fault right before the horizon": {"lose-request(s create to/a#1)", func() simtest.System {
			return systemOf("s", func(env *simtest.Env, _ *store.Informer[number]) reconciler {
				tos, waited := simtest.Open[number](env, "to"), false
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !waited {
						waited = true
						return controller.Result{RequeueAfter: 7 * time.Minute}, nil
					}
					_, err := tos.Create(ctx, store.Object[number]{Key: key})
					if errors.Is(err, simtest.ErrLost) {
						err = retry.NotYet(err, 30*time.Second)
					}
					return controller.Result{}, ignore(err, store.ErrExists)
				}
			})
		}, []string{"7m0s s.1 FAULT", "7m30s s.1 create to/a"}},
		"a process that comes back": {"down(s create to/first#1)", func() simtest.System {
			warm := true // the first process needs no time to warm up
			return systemOf("s", func(env *simtest.Env, _ *store.Informer[number]) reconciler {
				tos := simtest.Open[number](env, "to")
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !warm {
						warm = true
						return controller.Result{RequeueAfter: 30 * time.Second}, nil
					}
					warm = false
					_, err1 := tos.Create(ctx, store.Object[number]{Key: "first"})
					_, err2 := tos.Create(ctx, store.Object[number]{Key: "second"})
					return controller.Result{}, errors.Join(ignore(err1, store.ErrExists), ignore(err2, store.ErrExists))
				}
			})
		}, []string{"0s s.1 CRASH", "7m0s s.2 starts", "7m30s s.2 create to/second"}},
		"a call that arrives": {"late(s effect reset#1 by 1)", func() simtest.System {
			there := false
			return systemOf("s", func(env *simtest.Env, _ *store.Informer[number]) reconciler {
				tos, reset := simtest.Open[number](env, "to"), false
				return func(ctx context.Context, key string) (controller.Result, error) {
					if !reset {
						reset = true
						return controller.Result{RequeueAfter: -1}, env.Effect(ctx, "reset", func(context.Context) error { there = false; return nil })
					}
					if there {
						return controller.Result{RequeueAfter: time.Minute}, nil
					}
					there = true
					_, err := store.CreateOrUpdate(ctx, tos, nil, key, func(o *store.Object[number]) error { o.Value.N++; return nil })
					return controller.Result{RequeueAfter: time.Minute}, err
				}
			})
		}, []string{"0s s.2 create to/a", `7m0s s.1 its call "reset" arrives`, "8m0s s.2 update to/a"}},
	} {
		for _, mode := range []string{"step", "run"} {
			t.Run(name+" in mode "+mode, func(t *testing.T) {
				world := func() simtest.World {
					w := copier()
					w.Mode, w.Systems, w.Steps = mode, []simtest.System{c.system(), clock()}, w.Steps[:1]
					return w
				}
				inOrder(t, simtest.Timeline(t, world, c.plan), c.want...)
			})
		}
	}
}

// A reconcile may take longer than the horizon.
func TestReconcileInFlightIsAwaited(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		text := simtest.Timeline(t, inMode(mode, func() simtest.World {
			w := copier()
			w.Systems = []simtest.System{systemOf("s", func(env *simtest.Env, _ *store.Informer[number]) reconciler {
				tos := simtest.Open[number](env, "to")
				return func(ctx context.Context, key string) (controller.Result, error) {
					time.Sleep(20 * time.Minute)
					_, err := tos.Create(ctx, store.Object[number]{Key: key})
					return controller.Result{}, ignore(err, store.ErrExists)
				}
			})}
			return w
		}), "")
		inOrder(t, text, "STEP create", "20m0s s.1 create to/a", "STEP change", "20m0s user update from/a", "40m0s s.1 refused")
	}
}
