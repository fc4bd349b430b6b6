package simtest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// swept is a world of two controllers. The keeper copies what there is, and notes it in a map. If a copy is not in the map, the janitor
// deletes it, asks the store before it does, or tries again. The keeper comes first: without faults, it fills the map in time.
func swept(mode, janitor string) func() simtest.World {
	return func() simtest.World {
		w := copier()
		w.Mode, w.Pairs = mode, -1
		w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
			quiet := slog.New(slog.DiscardHandler)
			froms, tos := simtest.Open[number](env, "from"), simtest.Open[number](env, "to")
			from, err1 := informer.New(froms, store.Key, informer.Config{Name: "from", Logger: quiet})
			to, err2 := informer.New(tos, store.Key, informer.Config{Name: "to", Logger: quiet})
			if err := errors.Join(err1, err2); err != nil {
				return nil, err
			}
			var live sync.Map
			keeper, err1 := controller.New("keeper", func(ctx context.Context, key string) (controller.Result, error) {
				o, ok := from.Get(key)
				if !ok {
					return controller.Result{}, nil
				}
				live.Store(key, true)
				_, err := store.CreateOrUpdate(ctx, tos, nil, key, func(c *store.Object[number]) error { c.Value = o.Value; return nil })
				return controller.Result{}, err
			}, controller.Config[string]{Logger: quiet}, controller.For(from))
			var c *controller.Controller[string]
			c, err2 = controller.New("janitor", func(ctx context.Context, key string) (controller.Result, error) {
				_, copied := to.Get(key)
				if _, ok := live.Load(key); ok || !copied {
					return controller.Result{}, nil
				}
				switch janitor {
				case "asks":
					if _, err := froms.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
						return controller.Result{}, err
					}
				case "tries again":
					_, err := froms.Get(ctx, key)
					c.Add(key)
					return controller.Result{}, err
				}
				_, err := tos.Delete(ctx, key)
				return controller.Result{}, ignore(err, store.ErrNotFound)
			}, controller.Config[string]{Logger: quiet}, controller.For(to))
			return []simtest.Part{simtest.Loop(keeper), simtest.Loop(c)}, errors.Join(err1, err2)
		}
		made := false
		w.Always = func(v *simtest.View) error {
			_, err := simtest.Open[number](v, "to").Get(context.Background(), "a")
			if made && err != nil {
				return errors.New("the copy is gone, with its data")
			}
			made = err == nil
			return nil
		}
		return w
	}
}

func TestMapLostOnRestartIsFound(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		report := simtest.Explore(t, swept(mode, "deletes"))
		require.Len(t, report.Failures, 1)
		f := report.Failures[0]
		require.EqualValues(t, "always", f.Rule)
		require.Equal(t, "skip(step#2) cold(s create to/a#1 of from)", f.Plan.String())
		inOrder(t, f.Timeline, "s.1 create to/a", "CRASH", "s.2 FAULT it starts, and its controllers of from begin last", "delete to/a")
		for _, plan := range f.More {
			require.Equal(t, "cold", plan[0].Do, "nothing else finds it: %s", plan)
		}

		require.Empty(t, simtest.Explore(t, swept(mode, "asks")).Failures)
		text := simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of from)")
		inOrder(t, text, "s.2 FAULT it starts, and its controllers of from begin last", "s.2 janitor: reconcile a",
			"s.2 its controllers of from begin", "s.2 keeper: reconcile a", "STEP change", "s.2 update to/a")
		text = simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of to)")
		inOrder(t, text, "controllers of to begin last", "s.2 keeper: reconcile a", "controllers of to begin", "STEP change", "s.2 update to/a")
	}
}

// Cold starts are tried only where they make a difference. If every controller watches a kind, none can act before
// the others.
func TestColdStartsAreOmittedIfEveryControllerWaits(t *testing.T) {
	cold := func(world func() simtest.World) (plans []string) {
		for _, plan := range simtest.Singles(t, world) {
			if strings.HasPrefix(plan, "cold") {
				plans = append(plans, plan)
			}
		}
		return plans
	}
	require.Empty(t, cold(copier))
	require.Equal(t, []string{
		"cold(s create to/a#1 of from)", "cold(s create to/a#1 of to)", "cold(s update to/a#1 of from)", "cold(s update to/a#1 of to)",
	}, slices.Sorted(slices.Values(cold(swept("step", "deletes")))))
	require.Equal(t, cold(swept("step", "deletes")), cold(swept("run", "deletes")))
}

// Time does not advance before all controllers have started, not even during a slow call.
func TestColdStartTakesNoTime(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		text := simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of from) slow(s get from/a#1)")
		inOrder(t, text, "0s s.2 FAULT it starts", "0s s.2 FAULT the call takes 1m7s", "0s s.2 its controllers of from begin", "1m7s", "STEP change")
	}
}

// A controller that retries until another one has started loops only because of the fault.
func TestLoopNeedingColdStartIsAdvisory(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		report := simtest.Explore(t, swept(mode, "tries again"))
		for _, f := range report.Failures {
			t.Error(f)
		}
		doubts := of(report.Advice, "hot-loop")
		require.Len(t, doubts, 1)
		require.Contains(t, doubts[0].Problem, "only while the controllers of from by s.2 have not begun, by then for ")
	}
}

// purge is a part that deletes the copies that a cache does not show, once, when it starts.
type purge struct {
	seen *store.Informer[number]
	tos  store.Store[number]
}

func (purge) Name() string { return "purge" }

func (p purge) Run(ctx context.Context) error {
	all, err := p.tos.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range all.Items {
		if _, ok := p.seen.Get(o.Key); !ok {
			_, err = p.tos.Delete(ctx, o.Key)
		}
	}
	<-ctx.Done()
	return err
}

// As with a manager, no part of stages Always and Leading starts before the caches have synced.
func TestBackgroundPartStartsWithSyncedCaches(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		for _, stage := range []manager.Stage{manager.Always, manager.Leading} {
			world := func() simtest.World {
				w := worldOf(simtest.System{}, nil)
				w.Mode = mode
				w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
					quiet := slog.New(slog.DiscardHandler)
					tos := simtest.Open[number](env, "to")
					from, err := informer.New(simtest.Open[number](env, "from"), store.Key, informer.Config{Name: "from", Logger: quiet})
					if err != nil {
						return nil, err
					}
					c, err := controller.New("copy", func(ctx context.Context, key string) (controller.Result, error) {
						_, err := tos.Create(ctx, store.Object[number]{Key: key})
						return controller.Result{}, ignore(err, store.ErrExists)
					}, controller.Config[string]{Logger: quiet}, controller.For(from))
					return []simtest.Part{simtest.Background(manager.At(stage, purge{from, tos})), simtest.Loop(c)}, err
				}
				return w
			}
			text := simtest.Timeline(t, world, "restart(s step#2)")
			inOrder(t, text, "s.1 create to/a", "s.2 starts", "s.2 copy: reconcile a")
			require.NotContains(t, text, "delete", "mode %s, stage %v", mode, stage)
		}
	}
}

// The new process starts cold, but its successor does not.
func TestColdStartAffectsOneProcess(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		text := simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of from) crash-after(s update to/a#1)")
		inOrder(t, text, "s.2 FAULT it starts", "STEP change", "s.2 update to/a", "CRASH", "s.3 starts", "s.3 keeper: reconcile a")
		require.Equal(t, 1, strings.Count(text, "begin last"))
	}
}

// Its successor begins in the present.
func TestTravelAffectsOneProcess(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		text := simtest.Timeline(t, inMode(mode, copier), "travel(s update to/a#1 back 2) crash-after(s update to/a#2)")
		inOrder(t, text, "s.2 FAULT it starts, and its caches begin at version 2", "s.2 update to/a", "CRASH", "s.3 starts")
		require.Equal(t, 1, strings.Count(text, "its caches begin"))
	}
}

// A plan may have been written for a longer history.
func TestTravelEndsAtTheBeginning(t *testing.T) {
	text := simtest.Timeline(t, copier, "travel(s create to/a#1 back 99)")
	inOrder(t, text, "s.1 create to/a @2", "CRASH", "s.2 FAULT it starts, and its caches begin at version 0", "its caches catch up", "s.2 copy: reconcile a")
}

// Fairness counts from the start of the process: an alarm after 50 reconciles of a cold start is a bug, and after 150 it is advisory.
func TestColdStartAlarmIsABugOnlyEarly(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		for looks, severity := range map[int]simtest.Severity{50: simtest.Bug, 150: simtest.Advisory} {
			world := func() simtest.World {
				w := copier()
				w.Mode, w.Pairs = mode, -1
				w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
					froms, tos := simtest.Open[number](env, "from"), simtest.Open[number](env, "to")
					quiet := slog.New(slog.DiscardHandler)
					from, err1 := informer.New(froms, store.Key, informer.Config{Name: "from", Logger: quiet})
					to, err2 := informer.New(tos, store.Key, informer.Config{Name: "to", Logger: quiet})
					if err := errors.Join(err1, err2); err != nil {
						return nil, err
					}
					filled, turns, looked := false, 0, 0
					var keeper, janitor *controller.Controller[string]
					keeper, err1 = loopOf("keeper", from, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
						filled = true
						if turns++; turns < 120 {
							keeper.Add(key) // many reconciles come before the crash
							return controller.Result{}, nil
						}
						_, err := tos.Create(ctx, store.Object[number]{Key: key})
						return controller.Result{}, ignore(err, store.ErrExists)
					})
					janitor, err2 = loopOf("janitor", to, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
						if _, ok := to.Get(key); !ok || filled {
							return controller.Result{}, nil
						}
						if looked++; looked < looks {
							janitor.Add(key)
							return controller.Result{}, nil
						}
						_, err := tos.Delete(ctx, key)
						return controller.Result{}, ignore(err, store.ErrNotFound)
					})
					return []simtest.Part{simtest.Loop(keeper), simtest.Loop(janitor)}, errors.Join(err1, err2)
				}
				made := false
				w.Always = func(v *simtest.View) error {
					_, err := simtest.Open[number](v, "to").Get(context.Background(), "a")
					if made && err != nil {
						return errors.New("the copy is gone")
					}
					made = err == nil
					return nil
				}
				return w
			}
			plan, err := simtest.ParsePlan("cold(s create to/a#1 of from)")
			require.NoError(t, err)
			f := simtest.Replay(t, world, plan)
			require.NotNil(t, f)
			require.EqualValues(t, "always", f.Rule)
			require.Equal(t, severity, f.Severity, "mode %s: %s", mode, f.Problem)
		}
	}
}
