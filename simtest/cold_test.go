package simtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// swept is a world of two controllers. The keeper copies what there is, and notes it in a map. If a copy is not in the map, the janitor
// deletes it, asks the store before it does, or tries again. The keeper comes first: without faults, it fills the map in time.
func swept(mode, janitor string) func() simtest.World {
	return func() simtest.World {
		w := worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
			froms, from := simtest.Mirror[number](env, "from")
			tos, to := simtest.Mirror[number](env, "to")
			var live sync.Map
			keeper := loopOf("keeper", from, just(func(ctx context.Context, key string) error {
				o, ok := from.Get(key)
				if !ok {
					return nil
				}
				live.Store(key, true)
				return put(ctx, tos, key, o.Value.N)
			}))
			var c *controller.Controller[string]
			c = newController("janitor", controller.Config[string]{}, just(func(ctx context.Context, key string) error {
				_, copied := to.Get(key)
				if _, ok := live.Load(key); ok || !copied {
					return nil
				}
				switch janitor {
				case "asks":
					if _, err := froms.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
						return err
					}
				case "tries again":
					_, err := froms.Get(ctx, key)
					c.Add(key)
					return err
				}
				_, err := tos.Delete(ctx, key)
				return ignore(err, store.ErrNotFound)
			}), controller.For(to))
			return []simtest.Part{keeper, simtest.Loop(c)}
		}))
		w.Pairs = -1
		return withAlways(w, "a", stays())
	}
}

// stays returns a condition: the object is not deleted.
func stays() func(store.Object[number], error) error {
	made := false
	return func(_ store.Object[number], err error) error {
		if made && err != nil {
			return errors.New("the copy is deleted, with its data")
		}
		made = err == nil
		return nil
	}
}

func TestMapLostOnRestartIsFound(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
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
	})
}

// Cold starts are tried only where they make a difference. If every controller watches a kind, none can act before
// the others.
func TestColdStartsAreOmittedIfEveryControllerWaits(t *testing.T) {
	cold := func(world func() simtest.World) []string { return plansOf("cold", simtest.Singles(t, world)) }
	require.Empty(t, cold(copier))
	require.Equal(t, []string{
		"cold(s create to/a#1 of from)", "cold(s create to/a#1 of to)", "cold(s update to/a#1 of from)", "cold(s update to/a#1 of to)",
	}, cold(swept("step", "deletes")))
	require.Equal(t, cold(swept("step", "deletes")), cold(swept("run", "deletes")))
}

// Time does not advance before all controllers have started, not even during a slow call.
func TestColdStartTakesNoTime(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of from) slow(s get from/a#1)")
		inOrder(t, text, "0s s.2 FAULT it starts", "0s s.2 FAULT the call takes 1m7s", "0s s.2 its controllers of from begin", "1m7s", "STEP change")
	})
}

// A controller that retries until another one has started loops only because of the fault.
func TestLoopNeedingColdStartIsAdvisory(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		report := simtest.Explore(t, swept(mode, "tries again"))
		none(t, report.Failures)
		doubts := of(report.Advice, "hot-loop")
		require.Len(t, doubts, 1)
		require.Contains(t, doubts[0].Problem, "only while the controllers of from by s.2 have not begun, by then for ")
	})
}

// As with a manager, no part of stages Always and Leading starts before the caches have synced.
func TestBackgroundPartStartsWithSyncedCaches(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for _, stage := range []manager.Stage{manager.Always, manager.Leading} {
			world := func() simtest.World {
				return worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
					tos := simtest.Open[number](env, "to")
					_, from := simtest.Mirror[number](env, "from")
					// The part deletes the copies that the cache does not show, once, when it starts.
					purge := runs(func(ctx context.Context) error {
						all, err := tos.List(ctx)
						if err != nil {
							return err
						}
						for _, o := range all.Items {
							if _, ok := from.Get(o.Key); !ok {
								_, err = tos.Delete(ctx, o.Key)
							}
						}
						<-ctx.Done()
						return err
					})
					c := loopOf("copy", from, just(func(ctx context.Context, key string) error { return ensure(ctx, tos, key) }))
					return []simtest.Part{simtest.Background(manager.At(stage, purge)), c}
				}))
			}
			text := simtest.Timeline(t, world, "restart(s step#2)")
			inOrder(t, text, "s.1 create to/a", "s.2 starts", "s.2 copy: reconcile a")
			require.NotContains(t, text, "delete", stage)
		}
	})
}

// The new process starts cold, but its successor does not.
func TestColdStartAffectsOneProcess(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, swept(mode, "asks"), "cold(s create to/a#1 of from) crash-after(s update to/a#1)")
		inOrder(t, text, "s.2 FAULT it starts", "STEP change", "s.2 update to/a", "CRASH", "s.3 starts", "s.3 keeper: reconcile a")
		require.Equal(t, 1, strings.Count(text, "begin last"))
	})
}

// Its successor begins in the present.
func TestTravelAffectsOneProcess(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		text := simtest.Timeline(t, inMode(mode, copier), "travel(s update to/a#1 back 2) crash-after(s update to/a#2)")
		inOrder(t, text, "s.2 FAULT it starts, and its caches begin at version 2", "s.2 update to/a", "CRASH", "s.3 starts")
		require.Equal(t, 1, strings.Count(text, "its caches begin"))
	})
}

// A plan may have been written for a longer history.
func TestTravelEndsAtTheBeginning(t *testing.T) {
	text := simtest.Timeline(t, copier, "travel(s create to/a#1 back 99)")
	inOrder(t, text, "s.1 create to/a @2", "CRASH", "s.2 FAULT it starts, and its caches begin at version 0", "its caches catch up", "s.2 copy: reconcile a")
}

// Fairness counts from the start of the process: an alarm after 50 reconciles of a cold start is a bug, and after 150 it is advisory.
func TestColdStartAlarmIsABugOnlyEarly(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for looks, severity := range map[int]simtest.Severity{50: simtest.Bug, 150: simtest.Advisory} {
			f := replay(t, func() simtest.World {
				w := worldWith(mode, systemOf(func(env *simtest.Env) []simtest.Part {
					_, from := simtest.Mirror[number](env, "from")
					tos, to := simtest.Mirror[number](env, "to")
					filled, turns, looked := false, 0, 0
					var keeper, janitor *controller.Controller[string]
					keeper = newController("keeper", controller.Config[string]{}, just(func(ctx context.Context, key string) error {
						filled = true
						if turns++; turns < 120 {
							keeper.Add(key) // many reconciles come before the crash
							return nil
						}
						return ensure(ctx, tos, key)
					}), controller.For(from))
					janitor = newController("janitor", controller.Config[string]{}, just(func(ctx context.Context, key string) error {
						if _, ok := to.Get(key); !ok || filled {
							return nil
						}
						if looked++; looked < looks {
							janitor.Add(key)
							return nil
						}
						_, err := tos.Delete(ctx, key)
						return ignore(err, store.ErrNotFound)
					}), controller.For(to))
					return []simtest.Part{simtest.Loop(keeper), simtest.Loop(janitor)}
				}))
				w.Pairs = -1
				return withAlways(w, "a", stays())
			}, "cold(s create to/a#1 of from)")
			require.NotNil(t, f)
			require.EqualValues(t, "always", f.Rule)
			require.Equal(t, severity, f.Severity, f.Problem)
		}
	})
}
