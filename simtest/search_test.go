package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/simtest/internal/search"
	"github.com/setpoint-go/setpoint/store"
)

// with returns the plans that begin with a fault, sorted.
func with(do string, plans []string) (some []string) {
	for _, p := range plans {
		if strings.HasPrefix(p, do+"(") {
			some = append(some, p)
		}
	}
	slices.Sort(some)
	return some
}

// told3 is a world in which the user changes from/a twice after it was created, and a leader tells it once, and deletes to/a at the end.
func told3() simtest.World {
	w := worldOf(simtest.System{Lease: "main"}, func(ctx context.Context, s stores, key string) error {
		o, ok := s.from.Get(key)
		switch {
		case !ok:
			return nil
		case o.Value.N == 1:
			if err := s.env.Effect(ctx, "tell", func(context.Context) error { return nil }); err != nil {
				return err
			}
			_, err := s.to.Create(ctx, store.Object[number]{Key: key})
			return ignore(err, store.ErrExists)
		case o.Value.N == 2:
			_, err := s.to.Delete(ctx, key)
			return ignore(err, store.ErrNotFound)
		}
		return nil
	})
	for _, n := range []int{3, 4} {
		w.Steps = append(w.Steps, simtest.Step{Name: fmt.Sprint("change to ", n), Do: func(ctx context.Context, user *simtest.User) error {
			_, err := store.Patch(ctx, simtest.Open[number](user, "from"), "a", func(o *store.Object[number]) error { o.Value.N = n; return nil })
			return err
		}})
	}
	w.Systems = append(w.Systems, simtest.System{Name: "t", Trusted: true, New: func(env *simtest.Env) ([]simtest.Part, error) {
		cfg := informer.Config{Name: "from", Logger: slog.New(slog.DiscardHandler)}
		from, err := informer.New(simtest.Open[number](env, "from"), store.Key, cfg)
		if err != nil {
			return nil, err
		}
		seen := simtest.Open[number](env, "seen")
		c, err := loopOf("c", from, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
			_, err := seen.Create(ctx, store.Object[number]{Key: key})
			return controller.Result{}, ignore(err, store.ErrExists)
		})
		return []simtest.Part{simtest.Loop(c)}, err
	}})
	return w
}

// Each fault is tried wherever it is possible, and nowhere else.
func TestEachFaultIsTriedWherePossible(t *testing.T) {
	plans := simtest.Singles(t, told3)
	for _, p := range plans {
		require.NotContains(t, p, "(t ", "no fault hits a trusted system")
	}
	require.Equal(t, []string{
		"late(s effect tell#1 by 1)", "late(s effect tell#1 by 2)", "late(s effect tell#1 by 4)",
	}, with("late", plans), "at once, after the next step, and at the end")
	require.Equal(t, []string{
		"gap(s from/a#1 to 2)", "gap(s from/a#1 to 4)", "gap(s from/a#2 to 3)", "gap(s from/a#2 to 4)", "gap(s from/a#3 to 4)",
	}, with("gap", plans), "to the next change, and to the last")
	require.Equal(t, []string{"conflict(s delete to/a#1)"}, with("conflict", plans))
	require.Equal(t, []string{
		"regain(s create to/a#1)", "regain(s delete to/a#1)", "regain(s effect tell#1)",
	}, with("regain", plans))
	require.Equal(t, []string{
		"restart(s step#1)", "restart(s step#2)", "restart(s step#3)", "restart(s step#4)",
	}, with("restart", plans))
	travels := with("travel", plans)
	require.Contains(t, travels, "travel(s effect tell#1 back 1)", "to before from/a was created")
	require.NotContains(t, travels, "travel(s effect tell#1 back 2)")
}

// A plan is pruned only if its run is indistinguishable from that of another plan.
func TestDifferingPlanIsNotPruned(t *testing.T) {
	var truth store.Store[number]
	world := func() simtest.World {
		w := spinWorld("step", func(env *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
			tos := simtest.Open[number](env, "to")
			cfg := informer.Config{Name: "other", Logger: slog.New(slog.DiscardHandler)}
			other, err1 := informer.New(simtest.Open[number](env, "other"), store.Key, cfg)
			c, err2 := loopOf("c", from, controller.Config[string]{}, func(ctx context.Context, key string) (controller.Result, error) {
				create := func(name string) error {
					_, err := tos.Create(ctx, store.Object[number]{Key: name})
					return ignore(err, store.ErrExists)
				}
				if changed(from) {
					return controller.Result{}, create("last")
				}
				err := errors.Join(create(key+"1"), create(key+"2"))
				time.Sleep(time.Second)
				err = errors.Join(err, create(key+"3"))
				_, e := truth.Create(ctx, store.Object[number]{Key: key + "user"})
				return controller.Result{}, errors.Join(err, ignore(e, store.ErrExists), create(key+"4"))
			})
			return []simtest.Part{simtest.Loop(c), simtest.Cache(other)}, errors.Join(err1, err2)
		})()
		create := w.Steps[0].Do
		w.Steps[0].Do = func(ctx context.Context, user *simtest.User) error {
			truth = simtest.Open[number](user, "to")
			_, err := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: "b"})
			return errors.Join(create(ctx, user), err)
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
		for _, plan := range simtest.Tried(t, copier, search.Limits{Pairs: n, Seed: seed}) {
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
			_, err := store.CreateOrUpdate(ctx, s.to, nil, key, func(o *store.Object[number]) error { return nil })
			for range 4 {
				_, e := store.Patch(ctx, s.to, key, func(o *store.Object[number]) error { o.Value.N++; return nil })
				if err = errors.Join(err, e); errors.Is(e, simtest.ErrLost) {
					_, err = s.to.Create(ctx, store.Object[number]{Key: "mistake"})
					err = ignore(err, store.ErrExists)
				}
			}
			return err
		})
		w.Pairs = -1
		w.Same = func(_, _, _ string) string { return "there" }
		return w
	}
	report := simtest.Explore(t, world)
	require.Empty(t, report.Unfit)
	require.Len(t, report.Failures, 1)
	require.Equal(t, "skip(step#2) lose-request(s update to/a#1)", report.Failures[0].Plan.String())
}

// The limit is the allowed number of reconciles. One more is an error.
func TestReconcilesUpToLimitAreAccepted(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		for limit, fails := range map[int]bool{5: false, 4: true} {
			f := simtest.Replay(t, func() simtest.World {
				w := spinWorld(mode, func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
					n := 0
					var c *controller.Controller[string]
					c, err := loopOf("c", from, controller.Config[string]{}, func(_ context.Context, key string) (controller.Result, error) {
						if n++; n < 5 {
							c.Add(key)
						}
						return controller.Result{}, nil
					})
					return []simtest.Part{simtest.Loop(c)}, err
				})()
				w.MaxReconciles = limit
				return w
			}, nil)
			require.Equal(t, fails, f != nil, "mode %s, limit %d", mode, limit)
		}
	}
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
	world := func() simtest.World {
		w := spinWorld("run", func(_ *simtest.Env, from *store.Informer[number]) ([]simtest.Part, error) {
			c, err := loopOf("c", from, controller.Config[string]{Workers: 9}, func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, nil
			})
			return []simtest.Part{simtest.Loop(c)}, err
		})()
		w.Steps = []simtest.Step{{Name: "create", Do: func(ctx context.Context, user *simtest.User) (err error) {
			for _, key := range []string{"c", "b", "f", "a", "e", "d"} {
				_, e := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: key})
				err = errors.Join(err, e)
			}
			return err
		}}}
		return w
	}
	inOrder(t, simtest.Timeline(t, world, ""), "reconcile a", "reconcile b", "reconcile c", "reconcile d", "reconcile e", "reconcile f")
}
