package simtest_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
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

// runs is a part that runs a function.
type runs func(ctx context.Context) error

func (runs) Name() string                      { return "part" }
func (run runs) Run(ctx context.Context) error { return run(ctx) }

// spinning are systems that reconcile again and again without a call of the Env, once from/a is 2. Time does not pass.
var spinning = map[string]func(from *store.Informer[number]) []simtest.Part{
	"it asks to be reconciled at once": func(from *store.Informer[number]) []simtest.Part {
		return []simtest.Part{loopOf("c", from, func(context.Context, string) (controller.Result, error) {
			if changed(from) {
				return controller.Result{RequeueAfter: -1}, nil
			}
			return controller.Result{}, nil
		})}
	},
	"its hook adds its key": func(from *store.Informer[number]) []simtest.Part {
		var c *controller.Controller[string]
		cfg := controller.Config[string]{Workers: 3, Hooks: controller.Hooks[string]{Reconciled: func(r controller.Report[string]) {
			if changed(from) {
				c.Add(r.Key)
			}
		}}}
		c = newController("c", cfg, just(func(context.Context, string) error { return nil }), controller.For(from))
		return []simtest.Part{simtest.Loop(c)}
	},
	"two keys add each other": func(from *store.Informer[number]) []simtest.Part {
		other := map[string]string{"a": "b", "b": "a"}
		c, _ := adding(from, func(c, _ *controller.Controller[string], key string) { c.Add(other[key]) })
		return []simtest.Part{simtest.Loop(c)}
	},
	"two controllers add each other's key": func(from *store.Informer[number]) []simtest.Part {
		c, d := adding(from, func(_, other *controller.Controller[string], key string) { other.Add(key) })
		return []simtest.Part{simtest.Loop(c), simtest.Loop(d)}
	},
	"it adds its own key": func(from *store.Informer[number]) []simtest.Part {
		c, _ := adding(from, func(c, _ *controller.Controller[string], key string) { c.Add(key) })
		return []simtest.Part{simtest.Loop(c)}
	},
	"a part adds the key of each reconcile": func(from *store.Informer[number]) []simtest.Part {
		keys := make(chan string, 1)
		c, _ := adding(from, func(_, _ *controller.Controller[string], key string) { keys <- key })
		return []simtest.Part{simtest.Loop(c), simtest.Background(manager.At(manager.Always, runs(func(ctx context.Context) error {
			for {
				select {
				case key := <-keys:
					c.Add(key)
				case <-ctx.Done():
					return nil
				}
			}
		})))}
	},
}

// adding returns two controllers that call add for each key, with themselves and each other, once from/a is 2.
func adding(
	from *store.Informer[number], add func(c, other *controller.Controller[string], key string),
) (c, d *controller.Controller[string]) {
	c = newController("c", controller.Config[string]{}, just(func(_ context.Context, key string) error {
		if changed(from) {
			add(c, d, key)
		}
		return nil
	}), controller.For(from))
	d = newController("d", controller.Config[string]{}, just(func(_ context.Context, key string) error {
		if changed(from) {
			add(d, c, key)
		}
		return nil
	}), controller.For(from))
	return c, d
}

// spinWorld returns a world of one system, which watches the kind from.
func spinWorld(mode string, parts func(*simtest.Env, *store.Informer[number]) []simtest.Part) func() simtest.World {
	return func() simtest.World {
		return worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
			_, from := simtest.Mirror[number](env, "from")
			return parts(env, from)
		}))
	}
}

func TestLoopWithoutCallsIsHotLoop(t *testing.T) {
	endsInRealTime(t)
	for name, parts := range spinning {
		inModes(t, func(t *testing.T, mode string) {
			f := simtest.Replay(t, spinWorld(mode, func(_ *simtest.Env, from *store.Informer[number]) []simtest.Part { return parts(from) }), nil)
			require.NotNil(t, f, name)
			require.EqualValues(t, "hot-loop", f.Rule, name)
			require.Equal(t, "without any fault: s does not become quiet: 1000 reconciles with 0 writes, and there is still work", f.Problem, name)
			inOrder(t, f.Timeline, "STEP create", "s.1 c: reconcile a", "STEP change", "s.1 c: reconcile a", "times in all, until ")
			require.LessOrEqual(t, strings.Count(f.Timeline, "\n"), 12, f.Timeline)
		})
	}
}

// A reconcile or part that makes calls without end never lets time advance.
func TestEndlessCallsAreALoop(t *testing.T) {
	endsInRealTime(t)
	type calls func(ctx context.Context, env *simtest.Env) error
	get := func(ctx context.Context, env *simtest.Env) error {
		_, err := simtest.Open[number](env, "from").Get(ctx, "a")
		return ignore(err, store.ErrNotFound)
	}
	report := func(ctx context.Context, env *simtest.Env) error { return stores{env: env}.report(ctx) }
	n := 0
	write := func(ctx context.Context, env *simtest.Env) error {
		n++
		return put(ctx, simtest.Open[number](env, "to"), "a", n)
	}
	for name, c := range map[string]struct {
		calls  calls
		part   bool
		broken simtest.Rule
		does   string
	}{
		"a reconcile reads":   {get, false, "hot-loop", "1000 calls without a write"},
		"a reconcile reports": {report, false, "hot-loop", "1000 calls without a write"},
		"a reconcile writes":  {write, false, "churn", "100 writes while no time passes"},
		"a part reads":        {get, true, "hot-loop", "1000 calls without a write"},
		"a part writes":       {write, true, "churn", "100 writes while no time passes"},
	} {
		inModes(t, func(t *testing.T, mode string) {
			f := simtest.Replay(t, func() simtest.World {
				w := spinWorld(mode, func(env *simtest.Env, from *store.Informer[number]) []simtest.Part {
					parts := []simtest.Part{loopOf("c", from, just(func(ctx context.Context, _ string) (err error) {
						for changed(from) && !c.part && err == nil {
							err = c.calls(ctx, env)
						}
						return err
					}))}
					if c.part {
						parts = append(parts, simtest.Background(runs(func(ctx context.Context) error {
							for c.calls(ctx, env) == nil {
							}
							<-ctx.Done()
							return nil
						})))
					}
					return parts
				})()
				w.MaxReconciles = 10
				return w
			}, nil)
			require.NotNil(t, f, name)
			require.Equal(t, c.broken, f.Rule, name)
			require.Equal(t, "without any fault: s does not become quiet: "+c.does+", and there is still work", f.Problem, name)
			inOrder(t, f.Timeline, "s.1 ends: it makes call after call")
		})
	}
}

// A large cleanup makes many calls for each write, and ends.
func TestLargeCleanupIsNoLoop(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		var made int
		require.Nil(t, simtest.Replay(t, func() simtest.World {
			w := spinWorld(mode, func(env *simtest.Env, from *store.Informer[number]) []simtest.Part {
				return []simtest.Part{loopOf("c", from, just(func(ctx context.Context, _ string) error {
					for made = 0; changed(from) && made < 3000; made += 300 {
						for range 300 {
							if _, err := simtest.Open[number](env, "from").Get(ctx, "a"); err != nil {
								return ignore(err, store.ErrNotFound)
							}
						}
						if err := put(ctx, simtest.Open[number](env, "to"), "a", made+1); err != nil {
							return err
						}
					}
					return nil
				}))}
			})()
			w.MaxReconciles = 10
			return w
		}, nil))
		require.Equal(t, 3000, made)
	})
}

// A part that polls at any rate lets time advance.
func TestPollingPartIsNoLoop(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		polls := 0
		require.Nil(t, simtest.Replay(t, func() simtest.World {
			w := spinWorld(mode, func(env *simtest.Env, _ *store.Informer[number]) []simtest.Part {
				froms := simtest.Open[number](env, "from")
				return []simtest.Part{simtest.Background(runs(func(ctx context.Context) error {
					for ctx.Err() == nil {
						_, _ = froms.Get(ctx, "a")
						polls++
						time.Sleep(time.Second)
					}
					return nil
				}))}
			})()
			w.MaxReconciles = 1
			return w
		}, nil))
		require.Greater(t, polls, 400)
	})
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
		f := simtest.Replay(t, spinWorld("step", func(_ *simtest.Env, from *store.Informer[number]) []simtest.Part {
			return []simtest.Part{loopOf("c", from, just(func(ctx context.Context, _ string) error {
				if changed(from) {
					wait(ctx)
				}
				return nil
			}))}
		}), nil)
		require.NotNil(t, f, name)
		require.EqualValues(t, "stop", f.Rule, name)
		require.Contains(t, f.Problem, "s.1: the reconcile of a by c has not returned after 3h0m0s", name)
	}
}

// No call and no reconcile ends this loop, so the kit can only name the plan.
func TestHangingPlanIsNamed(t *testing.T) {
	endsInRealTime(t)
	for plan, says := range map[string]string{
		"":                  "the run without faults has not ended after 1ns",
		"restart(s step#1)": "the run of -simtest.plan='restart(s step#1)' has not ended after 1ns",
	} {
		warned := make(chan string, 1)
		simtest.PlayUntilWarned(t, spinWorld("step", func(_ *simtest.Env, from *store.Informer[number]) []simtest.Part {
			return []simtest.Part{loopOf("c", from, just(func(context.Context, string) error {
				for len(warned) == 0 {
					runtime.Gosched()
				}
				return nil
			}))}
		}), plan, func(text string) { warned <- text })
		require.Contains(t, <-warned, says)
	}
}
