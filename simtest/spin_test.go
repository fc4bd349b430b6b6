package simtest_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// endsInRealTime ends the whole test binary if the test hangs: a loop in a bubble can be ended by nothing else.
func endsInRealTime(t *testing.T) {
	t.Helper()
	guard := time.AfterFunc(2*time.Minute, func() { panic(t.Name() + " hangs") })
	t.Cleanup(func() { guard.Stop() })
}

// echo is a part that adds the keys that it receives.
type echo struct {
	keys chan string
	add  func(string)
}

func (echo) Name() string { return "echo" }

func (e echo) Run(ctx context.Context) error {
	for {
		select {
		case key := <-e.keys:
			e.add(key)
		case <-ctx.Done():
			return nil
		}
	}
}

// spinning are systems that reconcile again and again without a call of the Env, once from/a is 2. Time does not pass.
var spinning = map[string]func(env *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error){
	"it asks to be reconciled at once": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		c, err := loopOf("c", from, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if changed(from) {
				return controller.Result{RequeueAfter: -1}, nil
			}
			return controller.Result{}, nil
		})
		return []simtest.Part{simtest.Loop(c)}, err
	},
	"it adds its own key": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		var c *controller.Controller[string]
		c, err := loopOf("c", from, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if changed(from) {
				c.Add(key)
			}
			return controller.Result{}, nil
		})
		return []simtest.Part{simtest.Loop(c)}, err
	},
	"its hook adds its key": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		var c *controller.Controller[string]
		cfg := controller.Config[string]{Workers: 3, Hooks: controller.Hooks[string]{Reconciled: func(r controller.Report[string]) {
			if changed(from) {
				c.Add(r.Key)
			}
		}}}
		c, err := loopOf("c", from, cfg, func(context.Context, string) (controller.Result, error) { return controller.Result{}, nil })
		return []simtest.Part{simtest.Loop(c)}, err
	},
	"two keys add each other": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		var c *controller.Controller[string]
		other := map[string]string{"a": "b", "b": "a"}
		c, err := loopOf("c", from, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if changed(from) {
				c.Add(other[key])
			}
			return controller.Result{}, nil
		})
		return []simtest.Part{simtest.Loop(c)}, err
	},
	"two controllers add each other's key": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		var c, d *controller.Controller[string]
		add := func(to **controller.Controller[string]) func(context.Context, string) (controller.Result, error) {
			return func(_ context.Context, key string) (controller.Result, error) {
				if changed(from) {
					(*to).Add(key)
				}
				return controller.Result{}, nil
			}
		}
		c, err1 := loopOf("c", from, controller.Config[string]{}, add(&d))
		d, err2 := loopOf("d", from, controller.Config[string]{}, add(&c))
		return []simtest.Part{simtest.Loop(c), simtest.Loop(d)}, errors.Join(err1, err2)
	},
	"a part adds the key of each reconcile": func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
		e := echo{keys: make(chan string, 1)}
		c, err := loopOf("c", from, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
			if changed(from) {
				e.keys <- key
			}
			return controller.Result{}, nil
		})
		e.add = func(key string) { c.Add(key) }
		return []simtest.Part{simtest.Background(manager.At(manager.Always, e)), simtest.Loop(c)}, err
	},
}

// changed reports whether the cache shows the second step of the user.
func changed(from *store.Informer[number]) bool {
	o, ok := from.Get("a")
	return ok && o.Value.N == 2
}

func loopOf(
	name string, from *store.Informer[number], cfg controller.Config[string],
	reconcile func(context.Context, string) (controller.Result, error),
) (*controller.Controller[string], error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	return controller.New(name, reconcile, cfg, controller.For(from))
}

func spinWorld(mode string, parts func(*simtest.Env, *store.Informer[number]) ([]simtest.Part, error)) func() simtest.World {
	return func() simtest.World {
		w := copier()
		w.Mode = mode
		w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
			cfg := informer.Config{Name: "from", Logger: slog.New(slog.DiscardHandler)}
			from, err := informer.New(simtest.Open[number](env, "from"), store.Key, cfg)
			if err != nil {
				return nil, err
			}
			return parts(env, from)
		}
		return w
	}
}

func TestLoopWithoutCallsIsHotLoop(t *testing.T) {
	endsInRealTime(t)
	for name, parts := range spinning {
		for _, mode := range []string{"step", "run"} {
			t.Run(name+" in mode "+mode, func(t *testing.T) {
				f := simtest.Replay(t, spinWorld(mode, parts), nil)
				require.NotNil(t, f)
				require.EqualValues(t, "hot-loop", f.Rule)
				require.Equal(t, "without any fault: s does not become quiet: 1000 reconciles with 0 writes, and there is still work", f.Problem)
				inOrder(t, f.Timeline, "STEP create", "s.1 c: reconcile a", "STEP change", "s.1 c: reconcile a", "s.1 c: reconcile ")
			})
		}
	}
}

// caller is a part that makes one call after the other.
type caller struct{ call func(context.Context) error }

func (caller) Name() string { return "caller" }

func (c caller) Run(ctx context.Context) error {
	for {
		if err := c.call(ctx); err != nil {
			<-ctx.Done()
			return nil
		}
	}
}

// A reconcile or part that makes calls without end never lets time advance.
func TestEndlessCallsAreALoop(t *testing.T) {
	endsInRealTime(t)
	type calls func(env *simtest.Env, ctx context.Context) error
	get := func(env *simtest.Env, ctx context.Context) error {
		_, err := simtest.Open[number](env, "from").Get(ctx, "a")
		return ignore(err, store.ErrNotFound)
	}
	tell := func(env *simtest.Env, ctx context.Context) error {
		return env.Effect(ctx, "tell", func(context.Context) error { return nil })
	}
	put := func(env *simtest.Env, ctx context.Context) error {
		_, err := store.CreateOrUpdate(ctx, simtest.Open[number](env, "to"), nil, "a", func(o *store.Object[number]) error {
			o.Value.N++
			return nil
		})
		return err
	}
	for name, c := range map[string]struct {
		calls  calls
		part   bool
		broken simtest.Rule
		says   string
	}{
		"a reconcile reads":  {get, false, "hot-loop", "s does not become quiet: 1000 calls with 0 writes, and there is still work"},
		"a reconcile tells":  {tell, false, "hot-loop", "s does not become quiet: 1000 calls with 0 writes, and there is still work"},
		"a reconcile writes": {put, false, "churn", "s does not become quiet: 1000 calls with 500 writes, and there is still work"},
		"a part reads":       {get, true, "hot-loop", "s does not become quiet: 1000 calls with 0 writes, and there is still work"},
		"a part writes":      {put, true, "churn", "s does not become quiet: 1000 calls with 500 writes, and there is still work"},
	} {
		for _, mode := range []string{"step", "run"} {
			t.Run(name+" in mode "+mode, func(t *testing.T) {
				world := spinWorld(mode, func(env *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
					loop, err := loopOf("c", from, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
						for changed(from) && !c.part {
							if err := c.calls(env, ctx); err != nil {
								return controller.Result{}, err
							}
						}
						return controller.Result{}, nil
					})
					parts := []simtest.Part{simtest.Loop(loop)}
					if c.part {
						parts = append(parts, simtest.Background(caller{func(ctx context.Context) error { return c.calls(env, ctx) }}))
					}
					return parts, err
				})
				f := simtest.Replay(t, func() simtest.World {
					w := world()
					w.MaxReconciles = 10
					return w
				}, nil)
				require.NotNil(t, f)
				require.Equal(t, c.broken, f.Rule)
				require.Equal(t, "without any fault: "+c.says, f.Problem)
				inOrder(t, f.Timeline, "s.1 ends: it makes call after call")
			})
		}
	}
}

// A part that polls at any rate lets time advance.
func TestPollingPartIsNoLoop(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		polls := 0
		world := spinWorld(mode, func(env *simtest.Env, _ *store.Informer[number]) ([]simtest.Part, error) {
			froms := simtest.Open[number](env, "from")
			return []simtest.Part{simtest.Background(caller{func(ctx context.Context) error {
				_, err := froms.Get(ctx, "a")
				if polls++; ctx.Err() != nil {
					return ctx.Err()
				}
				time.Sleep(time.Second)
				return ignore(err, store.ErrNotFound)
			}})}, nil
		})
		require.Nil(t, simtest.Replay(t, func() simtest.World {
			w := world()
			w.MaxReconciles = 1
			return w
		}, nil))
		require.Greater(t, polls, 400)
	}
}

// Nothing else happens during a reconcile in step mode, so a reconcile that never returns would block the run.
func TestHangingReconcileIsReported(t *testing.T) {
	for name, wait := range map[string]func(context.Context){
		"it waits": func(ctx context.Context) { <-ctx.Done() },
		"it polls": func(ctx context.Context) {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
			}
		},
	} {
		f := simtest.Replay(t, spinWorld("step", func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
			c, err := loopOf("c", from, controller.Config[string]{}, func(ctx context.Context, _ string) (controller.Result, error) {
				if changed(from) {
					wait(ctx)
				}
				return controller.Result{}, nil
			})
			return []simtest.Part{simtest.Loop(c)}, err
		}), nil)
		require.NotNil(t, f, name)
		require.EqualValues(t, "stop", f.Rule, name)
		require.Contains(t, f.Problem, "s.1: the reconcile of a by c has not returned after 3h0m0s", name)
	}
}

// A loop looks the same everywhere, so its middle is omitted.
func TestLongTimelineIsShortened(t *testing.T) {
	f := simtest.Replay(t, spinWorld("step", spinning["it adds its own key"]), nil)
	require.NotNil(t, f)
	require.Equal(t, 301, strings.Count(f.Timeline, "\n"))
	require.Regexp(t, `\.\.\. \d+ lines are left out \.\.\.`, f.Timeline)
	inOrder(t, f.Timeline, "STEP create", "STEP change", "left out", "c: reconcile a")
}

// No call and no reconcile ends this loop, so the kit can only name the plan.
func TestHangingPlanIsNamed(t *testing.T) {
	endsInRealTime(t)
	for plan, says := range map[string]string{
		"":                  "the run without faults has not ended after 1ns",
		"restart(s step#1)": "the run of -simtest.plan='restart(s step#1)' has not ended after 1ns",
	} {
		warned := make(chan string, 1)
		simtest.PlayUntilWarned(t, spinWorld("step", func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
			c, err := loopOf("c", from, controller.Config[string]{}, func(context.Context, string) (controller.Result, error) {
				for len(warned) == 0 {
					runtime.Gosched()
				}
				return controller.Result{}, nil
			})
			return []simtest.Part{simtest.Loop(c)}, err
		}), plan, func(text string) { warned <- text })
		require.Contains(t, <-warned, says)
	}
}
