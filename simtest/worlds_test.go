package simtest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// number is the value of every object here.
type number struct{ N int }

type reconciler = func(context.Context, string) (controller.Result, error)

// just makes a reconciler of a function that has no result.
func just(reconcile func(context.Context, string) error) reconciler {
	return func(ctx context.Context, key string) (controller.Result, error) {
		return controller.Result{}, reconcile(ctx, key)
	}
}

func newController(
	name string, cfg controller.Config[string], reconcile reconciler, inputs ...controller.Input[string],
) *controller.Controller[string] {
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := controller.New(name, reconcile, cfg, inputs...)
	if err != nil {
		panic(err)
	}
	return c
}

// loopOf returns a controller of the objects of one informer.
func loopOf(name string, from *store.Informer[number], reconcile reconciler) simtest.Part {
	return simtest.Loop(newController(name, controller.Config[string]{}, reconcile, controller.For(from)))
}

// systemOf returns a system named s.
func systemOf(parts func(*simtest.Env) []simtest.Part) simtest.System {
	return simtest.System{Name: "s", New: func(env *simtest.Env) ([]simtest.Part, error) { return parts(env), nil }}
}

// worldWith returns a world in a mode, in which the user creates from/a with 1, and changes it to 2.
func worldWith(mode string, systems ...simtest.System) simtest.World {
	return simtest.World{Mode: mode, Systems: systems, Steps: []simtest.Step{create("from", "a", 1), change("from", "a", 2)}}
}

// create is a step in which the user creates objects.
func create(kind, keys string, n int) simtest.Step {
	return simtest.Step{Name: "create", Do: func(ctx context.Context, user *simtest.User) (err error) {
		for key := range strings.FieldsSeq(keys) {
			_, e := simtest.Open[number](user, kind).Create(ctx, store.Object[number]{Key: key, Value: number{n}})
			err = errors.Join(err, e)
		}
		return err
	}}
}

// change is a step in which the user changes an object, if it exists.
func change(kind, key string, n int) simtest.Step {
	return simtest.Step{Name: "change", Do: func(ctx context.Context, user *simtest.User) error {
		return ignore(set(ctx, simtest.Open[number](user, kind), key, n), store.ErrNotFound)
	}}
}

// set changes an object.
func set(ctx context.Context, s store.Store[number], key string, n int) error {
	_, err := store.Patch(ctx, s, key, func(o *store.Object[number]) error { o.Value.N = n; return nil })
	return err
}

// put creates or changes an object.
func put(ctx context.Context, s store.Store[number], key string, n int) error {
	_, err := store.CreateOrUpdate(ctx, s, key, func(o *store.Object[number]) error { o.Value.N = n; return nil })
	return err
}

// ensure creates an object, unless it exists.
func ensure(ctx context.Context, s store.Store[number], key string) error {
	_, err := s.Create(ctx, store.Object[number]{Key: key})
	return ignore(err, store.ErrExists)
}

func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}

// stores is what the reconcile function of a test gets.
type stores struct {
	env        *simtest.Env
	from, to   *store.Informer[number]
	froms, tos store.Store[number]
}

// worldOf returns a world of one controller, which watches the kind from.
func worldOf(sys simtest.System, reconcile func(context.Context, stores, string) error) simtest.World {
	s := systemOf(func(env *simtest.Env) []simtest.Part {
		s := stores{env: env, tos: simtest.Open[number](env, "to")}
		s.froms, s.from = simtest.Mirror[number](env, "from")
		return []simtest.Part{loopOf("copy", s.from, just(func(ctx context.Context, key string) error { return reconcile(ctx, s, key) }))}
	})
	s.Lease = sys.Lease
	return worldWith("", s)
}

// watchBoth is worldOf, with a cache of both kinds. The keys of both are reconciled.
func watchBoth(cfg controller.Config[string], reconcile func(context.Context, stores, string) error) simtest.World {
	return worldWith("", systemOf(func(env *simtest.Env) []simtest.Part {
		s := stores{env: env}
		s.froms, s.from = simtest.Mirror[number](env, "from")
		s.tos, s.to = simtest.Mirror[number](env, "to")
		return []simtest.Part{simtest.Loop(newController("copy", cfg, just(func(ctx context.Context, key string) error {
			return reconcile(ctx, s, key)
		}), controller.For(s.from), controller.For(s.to)))}
	}))
}

// copier is a world in which a system copies objects of the kind from to the kind to. It survives every fault.
func copier() simtest.World {
	return worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		if !ok {
			return nil
		}
		return put(ctx, s.tos, key, o.Value.N)
	})
}

// led is the world of a copier that has a leader, and reports its copies.
func led() simtest.World {
	return worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		if !ok {
			return nil
		}
		if err := s.report(ctx); err != nil {
			return err
		}
		return put(ctx, s.tos, key, o.Value.N)
	})
}

// report is an effect that does nothing.
func (s stores) report(ctx context.Context) error {
	return s.env.Effect(ctx, "report", func(context.Context) error { return nil })
}

// changed reports whether the cache shows the second step of the user.
func changed(from *store.Informer[number]) bool {
	o, ok := from.Get("a")
	return ok && o.Value.N == 2
}

// inMode returns the world in a mode.
func inMode(mode string, world func() simtest.World) func() simtest.World {
	return func() simtest.World {
		w := world()
		w.Mode = mode
		return w
	}
}

// inModes runs a test in each mode.
func inModes(t *testing.T, test func(t *testing.T, mode string)) {
	t.Helper()
	for _, mode := range []string{"step", "run"} {
		t.Run(mode, func(t *testing.T) { test(t, mode) })
	}
}

// withAlways returns a world with a condition on an object of the kind to.
func withAlways(w simtest.World, key string, always func(o store.Object[number], err error) error) simtest.World {
	w.Always = func(v *simtest.View) error {
		return always(simtest.Open[number](v, "to").Get(context.Background(), key))
	}
	return w
}

// replay runs a plan.
func replay(t *testing.T, world func() simtest.World, plan string) *simtest.Failure {
	t.Helper()
	p, err := simtest.ParsePlan(plan)
	require.NoError(t, err)
	return simtest.Replay(t, world, p)
}

// inOrder requires that text has the words in this order.
func inOrder(t *testing.T, text string, words ...string) {
	t.Helper()
	rest := strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		_, after, ok := strings.Cut(rest, w)
		require.True(t, ok, "%q does not follow in\n%s", w, text)
		rest = after
	}
}

// of returns the failures that break a rule.
func of(failures []*simtest.Failure, rule simtest.Rule) []*simtest.Failure {
	return slices.DeleteFunc(slices.Clone(failures), func(f *simtest.Failure) bool { return f.Rule != rule })
}

// none fails the test for each failure.
func none(t *testing.T, failures []*simtest.Failure) {
	t.Helper()
	for _, f := range failures {
		t.Error(f)
	}
}
