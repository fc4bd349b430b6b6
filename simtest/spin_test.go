package simtest_test

import (
	"context"
	"errors"
	"log/slog"
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

// echo is a part that adds what it gets.
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

func TestALoopWithoutACallIsHot(t *testing.T) {
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
