package simtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// plansOf returns the plans that begin with a fault, sorted.
func plansOf(do string, plans []string) (some []string) {
	for _, p := range plans {
		if strings.HasPrefix(p, do+"(") {
			some = append(some, p)
		}
	}
	slices.Sort(some)
	return some
}

// reported is a world in which the user changes from/a twice more, and a leader reports it once, and deletes to/a at the end.
func reported() simtest.World {
	w := worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		switch {
		case !ok:
			return nil
		case o.Value.N == 1:
			if err := s.report(ctx); err != nil {
				return err
			}
			return ensure(ctx, s.tos, key)
		case o.Value.N == 2:
			_, err := s.tos.Delete(ctx, key)
			return ignore(err, store.ErrNotFound)
		}
		return nil
	})
	w.Steps = append(w.Steps, change("from", "a", 3), change("from", "a", 4))
	trusted := made(func(env *simtest.Env, _ store.Store[number]) reconciler {
		seen := simtest.Open[number](env, "seen")
		return just(func(ctx context.Context, key string) error { return ensure(ctx, seen, key) })
	})
	trusted.Name, trusted.Trusted = "t", true
	w.Systems = append(w.Systems, trusted)
	return w
}

// Each fault is tried wherever it is possible, and nowhere else.
func TestEachFaultIsTriedWherePossible(t *testing.T) {
	plans := simtest.Singles(t, reported)
	for _, p := range plans {
		require.NotContains(t, p, "(t ", "no fault hits a trusted system")
	}
	require.Equal(t, []string{
		"late(s effect report#1 by 1)", "late(s effect report#1 by 2)", "late(s effect report#1 by 4)",
	}, plansOf("late", plans), "at once, after the next step, and at the end")
	require.Equal(t, []string{
		"gap(s from/a#1 to 2)", "gap(s from/a#1 to 4)", "gap(s from/a#2 to 3)", "gap(s from/a#2 to 4)", "gap(s from/a#3 to 4)",
		"gap(s from/a#4 to 5)",
	}, plansOf("gap", plans), "to the next change, and to the last, and from the last one on")
	require.Equal(t, []string{"conflict(s delete to/a#1)"}, plansOf("conflict", plans))
	require.Equal(t, []string{
		"regain(s create to/a#1)", "regain(s delete to/a#1)", "regain(s effect report#1)",
	}, plansOf("regain", plans))
	require.Equal(t, []string{
		"restart(s step#1)", "restart(s step#2)", "restart(s step#3)", "restart(s step#4)",
	}, plansOf("restart", plans))
	travels := plansOf("travel", plans)
	require.Contains(t, travels, "travel(s effect report#1 back 1)", "to before from/a was created")
	require.NotContains(t, travels, "travel(s effect report#1 back 2)")
}

// A plan is pruned only if its run is indistinguishable from that of another plan.
func TestDifferingPlanIsNotPruned(t *testing.T) {
	var truth store.Store[number]
	world := func() simtest.World {
		w := spinWorld("step", func(env *simtest.Env, from *store.Informer[number]) []simtest.Part {
			tos := simtest.Open[number](env, "to")
			_, other := simtest.Mirror[number](env, "other")
			c := loopOf("c", from, just(func(ctx context.Context, key string) error {
				if changed(from) {
					return ensure(ctx, tos, "last")
				}
				err := errors.Join(ensure(ctx, tos, key+"1"), ensure(ctx, tos, key+"2"))
				time.Sleep(time.Second)
				return errors.Join(err, ensure(ctx, tos, key+"3"), ensure(ctx, truth, key+"user"), ensure(ctx, tos, key+"4"))
			}))
			return []simtest.Part{c, simtest.Cache(other)}
		})()
		creates := create("from", "b a", 1).Do
		w.Steps[0].Do = func(ctx context.Context, user *simtest.User) error {
			truth = simtest.Open[number](user, "to")
			return creates(ctx, user)
		}
		return w
	}
	pruned := simtest.Pruned(t, world)
	for plan, like := range map[string]string{
		"crash-before(s create to/a1#1)":   "", // another reconcile, or the first
		"crash-before(s create to/b1#1)":   "",
		"crash-before(s create to/a2#1)":   "crash-after(s create to/a1#1)",
		"crash-before(s create to/a3#1)":   "", // time has passed
		"crash-before(s create to/a4#1)":   "", // the user has acted
		"crash-before(s create to/b2#1)":   "crash-after(s create to/b1#1)",
		"lag(s create to/last#1 of other)": "", // nothing was left to do
	} {
		require.Equal(t, like, pruned[plan], plan)
	}
	lags := 0
	for plan := range pruned {
		if strings.HasPrefix(plan, "lag") && strings.HasSuffix(plan, "of other)") {
			lags++
		}
	}
	require.Equal(t, 7, lags, "only the first of eight in the first step is tried")
}

// Each pair is tried once, and the seed chooses which.
func TestSeedDeterminesPairs(t *testing.T) {
	pairs := func(n int, seed uint64) (some []string) {
		world := func() simtest.World {
			w := copier()
			w.Systems[0].Lease = "main" // without it, early(s get to/a#1) and zombie(s create to/a#1) together undo a change
			w.Pairs, w.Seed = n, seed
			return w
		}
		for _, plan := range simtest.Tried(t, world) {
			if parsed, err := simtest.ParsePlan(plan); err == nil && len(parsed) == 2 {
				require.NotEqual(t, parsed[0], parsed[1])
				texts := []string{parsed[0].String(), parsed[1].String()}
				slices.Sort(texts)
				some = append(some, strings.Join(texts, " "))
			}
		}
		return some
	}
	once := pairs(60, 1)
	require.Len(t, once, 60)
	require.Equal(t, once, pairs(60, 1))
	require.NotEqual(t, once, pairs(60, 2))
	all := pairs(100_000, 1)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), len(all), "each pair once")
}

func TestEachFailingPlanIsCounted(t *testing.T) {
	report := simtest.Explore(t, func() simtest.World {
		w := sitesWorld()
		w.Pairs = -1
		return w
	})
	n := 0
	for _, f := range report.Failures {
		n += 1 + len(f.More)
	}
	require.Greater(t, n, 3)
	require.Equal(t, n, report.Failing)
}

// A plan of several faults shrinks to the relevant one, and to its first relevant occurrence.
func TestFaultIsShrunkToFirstOccurrence(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := filepath.Join("testdata", "simtest", t.Name())
	require.NoError(t, os.MkdirAll(dir, 0o777))
	const plan = "restart(s step#1) lose-request(s update to/a#3) slow(s create to/a#1)"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1"), []byte(plan), 0o666))
	world := func() simtest.World {
		w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			if _, ok := s.from.Get(key); !ok {
				return nil
			}
			err := ensure(ctx, s.tos, key)
			for range 4 {
				_, e := store.Patch(ctx, s.tos, key, func(o *store.Object[number]) error { o.Value.N++; return nil })
				if err = errors.Join(err, e); errors.Is(e, simtest.ErrLost) {
					err = ensure(ctx, s.tos, "mistake")
				}
			}
			return err
		})
		w.Pairs = -1
		w.Steps = append([]simtest.Step{create("other", "x", 0)}, w.Steps...) // it changes nothing
		w.Same = func(_, _ string, _ any) any { return "there" }
		return w
	}
	report := simtest.Explore(t, world)
	require.Empty(t, report.Unfit)
	require.Len(t, report.Failures, 1)
	require.Equal(t, "skip(step#1) skip(step#3) lose-request(s update to/a#1)", report.Failures[0].Plan.String())
}

// The limit is the allowed number of reconciles. One more is an error.
func TestReconcilesUpToLimitAreAccepted(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for limit, fails := range map[int]bool{5: false, 4: true} {
			f := simtest.Replay(t, func() simtest.World {
				w := spinWorld(mode, func(_ *simtest.Env, from *store.Informer[number]) []simtest.Part {
					n := 0
					var c *controller.Controller[string]
					c = newController("c", controller.Config[string]{}, just(func(_ context.Context, key string) error {
						if n++; n < 5 {
							c.Add(key)
						}
						return nil
					}), controller.For(from))
					return []simtest.Part{simtest.Loop(c)}
				})()
				w.MaxReconciles = limit
				return w
			}, nil)
			require.Equal(t, fails, f != nil, "limit %d", limit)
		}
	})
}

func TestListMayFail(t *testing.T) {
	world := func() simtest.World {
		return worldOf(simtest.System{}, func(ctx context.Context, s stores, _ string) error {
			_, err := s.froms.List(ctx)
			return err
		})
	}
	inOrder(t, simtest.Timeline(t, world, "read-fails(s list from#1)"), "FAULT list from fails", "c", "reconcile a")
}

// In run mode, reconciles whose keys workers have taken together start in key order.
func TestReconcilesOfSeveralWorkersStartInOrder(t *testing.T) {
	text := simtest.Timeline(t, func() simtest.World {
		w := spinWorld("run", func(_ *simtest.Env, from *store.Informer[number]) []simtest.Part {
			return []simtest.Part{simtest.Loop(newController("c", controller.Config[string]{Workers: 9},
				just(func(context.Context, string) error { return nil }), controller.For(from)))}
		})()
		w.Steps = []simtest.Step{create("from", "c b f a e d", 0)}
		return w
	}, "")
	inOrder(t, text, "reconcile a", "reconcile b", "reconcile c", "reconcile d", "reconcile e", "reconcile f")
}
