package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// stale makes a controller reconcile a key again although its caches do not show its own writes.
var stale = controller.Config[string]{StaleReads: true}

// touch changes from/a, so that the controller reconciles it again while the cache of to lags.
func touch(ctx context.Context, b stores) error {
	_, err := store.Patch(ctx, b.froms, "a", func(o *store.Object[number]) error { o.Value.N += 10; return nil })
	return err
}

// In each world, the system has created to/a in its first reconcile of from/a, and its cache of to lags from then on.
func TestDoubtsOfACreation(t *testing.T) {
	const lag = "lag(s create to/a#1 of to)"
	// turn is one reconcile of from/a after the first, with what the system does in it.
	type turn = func(ctx context.Context, b stores) error
	creates := func(key string) turn {
		return func(ctx context.Context, b stores) error { return ensure(ctx, b.tos, key) }
	}
	for name, c := range map[string]struct {
		turns []turn // while the cache lags
		after turn   // after the next step of the user, when the cache has caught up
		want  int
	}{
		"right after its own write": {turns: []turn{creates("b")}, want: 1},
		"of another kind": {turns: []turn{func(ctx context.Context, b stores) error {
			return ensure(ctx, b.froms, "b")
		}}, want: 0},
		"after a read of the object": {turns: []turn{func(ctx context.Context, b stores) error {
			_, err := b.tos.Get(ctx, "b")
			return errors.Join(ignore(err, store.ErrNotFound), ensure(ctx, b.tos, "b"))
		}}, want: 0},
		"after a read of another object": {turns: []turn{func(ctx context.Context, b stores) error {
			_, err := b.tos.Get(ctx, "c")
			return errors.Join(ignore(err, store.ErrNotFound), ensure(ctx, b.tos, "b"))
		}}, want: 1},
		"after a list": {turns: []turn{func(ctx context.Context, b stores) error {
			_, err := b.tos.List(ctx)
			return errors.Join(err, ensure(ctx, b.tos, "b"))
		}}, want: 0},
		"after a read by an earlier reconcile": {turns: []turn{func(ctx context.Context, b stores) error {
			_, err := b.tos.Get(ctx, "b")
			return ignore(err, store.ErrNotFound)
		}, creates("b")}, want: 1},
		"after the cache has caught up": {turns: []turn{creates("b")}, after: creates("c"), want: 1},
	} {
		inModes(t, func(t *testing.T, mode string) {
			world := func() simtest.World {
				n := 0
				w := watchBoth(stale, func(ctx context.Context, b stores, key string) error {
					o, ok := b.from.Get("a")
					switch {
					case key != "a" || !ok:
						return nil
					case o.Value.N == 2:
						if c.after == nil {
							return nil
						}
						return c.after(ctx, b)
					case n == 0:
						n++
						return errors.Join(ensure(ctx, b.tos, "a"), touch(ctx, b))
					case n <= len(c.turns):
						n++
						err := c.turns[n-2](ctx, b)
						if n <= len(c.turns) {
							err = errors.Join(err, touch(ctx, b))
						}
						return err
					}
					return nil
				})
				w.Mode = mode
				return w
			}
			text := simtest.Timeline(t, world, lag)
			require.Equal(t, c.want, strings.Count(text, "DOUBT it creates, and its cache of to"), "%s, mode %s:\n%s", name, mode, text)
			require.NotContains(t, simtest.Timeline(t, world, ""), "DOUBT", name)
		})
	}
}

// A write that the cache does not show is not doubtful if another system has made it.
func TestNoDoubtAfterWriteOfAnotherSystem(t *testing.T) {
	world := func() simtest.World {
		w := watchBoth(stale, func(ctx context.Context, b stores, key string) error {
			o, ok := b.from.Get("a")
			switch {
			case key != "a" || !ok:
				return nil
			case o.Value.N == 1:
				return b.env.Effect(ctx, "look", func(context.Context) error { return nil })
			case o.Value.N == 11:
				return ensure(ctx, b.tos, "own")
			}
			return nil
		})
		other := watchBoth(stale, func(ctx context.Context, b stores, key string) error {
			if o, ok := b.from.Get("a"); !ok || key != "a" || o.Value.N != 1 {
				return nil
			}
			return errors.Join(ensure(ctx, b.tos, "other"), touch(ctx, b))
		}).Systems[0]
		other.Name = "t"
		w.Systems = append(w.Systems, other)
		return w
	}
	text := simtest.Timeline(t, world, "lag(s effect look#1 of to)")
	inOrder(t, text, "its cache of to lags", "t.1 create to/other", "s.1 create to/own", "its caches catch up")
	require.NotContains(t, text, "DOUBT")
}

// The kind of the object does not matter: the stale cache may be the reason for the deletion. A precondition that another object would not
// meet removes the doubt.
func TestDoubtsOfADeletion(t *testing.T) {
	for name, want := range map[string]int{"by name": 1, "by UID": 0, "by version": 0, "after a read": 0} {
		world := func() simtest.World {
			return watchBoth(stale, func(ctx context.Context, b stores, key string) error {
				switch o, ok := b.from.Get("a"); {
				case !ok:
					return nil
				case key == "a" && o.Value.N == 1:
					return errors.Join(ensure(ctx, b.tos, "x"), touch(ctx, b))
				}
				x, ok := b.to.Get("x")
				if key != "x" || !ok {
					return nil
				}
				var pre []store.Precondition
				switch name {
				case "by UID":
					pre = append(pre, store.IfUID(x.UID))
				case "by version":
					pre = append(pre, store.IfVersion(x.Version))
				case "after a read":
					if _, err := b.tos.Get(ctx, "x"); err != nil {
						return err
					}
				}
				_, err := b.tos.Delete(ctx, "x", pre...)
				return ignore(err, store.ErrNotFound)
			})
		}
		text := simtest.Timeline(t, world, "lag(s update from/a#1 of from)")
		inOrder(t, text, "its cache of from lags", "s.1 delete to/x")
		require.Equal(t, want, strings.Count(text, "DOUBT it deletes, and its cache of from is at version "), "%s:\n%s", name, text)
		require.NotContains(t, simtest.Timeline(t, world, ""), "DOUBT", name)
	}
}

// A report counts doubts by what is written and what is stale. A plan counts once, no matter how often it is doubtful.
func TestDoubtsAreCountedByKind(t *testing.T) {
	report := simtest.Explore(t, func() simtest.World {
		w := watchBoth(stale, func(ctx context.Context, b stores, key string) error {
			others := simtest.Open[number](b.env, "other")
			switch o, ok := b.from.Get("a"); {
			case !ok:
				return nil
			case key == "a" && o.Value.N == 1:
				return errors.Join(ensure(ctx, others, "z"), ensure(ctx, b.tos, "x"), ensure(ctx, b.tos, "y"), touch(ctx, b))
			case key != "y":
				return nil
			}
			_, err1 := b.tos.Delete(ctx, "x")
			_, err2 := b.tos.Delete(ctx, "y")
			_, err3 := others.Delete(ctx, "z")
			return errors.Join(ignore(err1, store.ErrNotFound), ignore(err2, store.ErrNotFound), ignore(err3, store.ErrNotFound))
		})
		w.Pairs = -1
		w.Goal = func(*simtest.View) error { return nil }
		return w
	})
	counts := make(map[string]int)
	for _, f := range of(report.Advice, "stale-delete") {
		for _, kind := range []string{"to", "other"} {
			if strings.Contains(f.Problem, " deletes "+kind+"/") && strings.Contains(f.Problem, "its cache of from shows") {
				counts[kind]++
			}
		}
		require.Equal(t, simtest.Advisory, f.Severity)
		plans := []string{f.Plan.String()}
		for _, plan := range f.More {
			plans = append(plans, plan.String())
		}
		slices.Sort(plans)
		require.Equal(t, slices.Compact(slices.Clone(plans)), plans)
	}
	require.Equal(t, map[string]int{"to": 1, "other": 1}, counts)
}

// A lag of more than a minute is unfair, whatever the number of reconciles.
func TestAlarmNeedingALongLagIsAdvisory(t *testing.T) {
	for lasts, severity := range map[time.Duration]simtest.Severity{50 * time.Second: simtest.Bug, 70 * time.Second: simtest.Advisory} {
		world := func() simtest.World {
			w := watchBoth(stale, func(ctx context.Context, b stores, key string) error {
				o, ok := b.from.Get("a")
				switch {
				case key != "a" || !ok:
					return nil
				case o.Value.N == 1:
					return errors.Join(ensure(ctx, b.tos, "a"), touch(ctx, b))
				}
				if _, ok := b.to.Get("a"); ok || o.Value.N != 11 {
					return nil
				}
				time.Sleep(lasts)
				return set(ctx, b.tos, "a", 9)
			})
			w.Goal = func(*simtest.View) error { return nil }
			raised := false // for a moment: an alarm that outlasts the lag is a bug
			return withAlways(w, "a", func(o store.Object[number], err error) error {
				if err != nil || o.Value.N != 9 || raised {
					return nil
				}
				raised = true
				return errors.New("it is nine")
			})
		}
		f := replay(t, world, "lag(s create to/a#1 of to)")
		require.NotNil(t, f)
		require.EqualValues(t, "always", f.Rule)
		require.Equal(t, severity, f.Severity, "%v: %s", lasts, f.Problem)
		require.Equal(t, severity == simtest.Advisory, strings.Contains(f.Problem, fmt.Sprintf("by then for %v", lasts)))
	}
}

// Writes before the last step of the user do not turn a hot loop into churn. One write in a hundred reconciles does.
func TestHotLoopDiffersFromChurnByWrites(t *testing.T) {
	never := retry.NotYet(errors.New("never"), time.Second)
	for rule, reconcile := range map[simtest.Rule]func() func(context.Context, stores, string) error{
		"hot-loop": func() func(context.Context, stores, string) error {
			return func(ctx context.Context, b stores, key string) error {
				if changed(b.from) {
					return never
				}
				return ensure(ctx, b.tos, "a")
			}
		},
		"churn": func() func(context.Context, stores, string) error {
			n := 0
			return func(ctx context.Context, b stores, key string) error {
				if n++; n%10 == 1 {
					return errors.Join(put(ctx, b.tos, "a", n), never)
				}
				return never
			}
		},
	} {
		f := simtest.Replay(t, func() simtest.World {
			w := watchBoth(controller.Config[string]{}, reconcile())
			w.MaxReconciles = 100
			return w
		}, nil)
		require.NotNil(t, f, rule)
		require.Equal(t, rule, f.Rule, f.Problem)
	}
}

// A lag that lasts beyond a step of the user is fair for another 100 reconciles.
func TestStepRestartsCountOfLag(t *testing.T) {
	for limit, severity := range map[int]simtest.Severity{2095: simtest.Bug, 2105: simtest.Advisory} {
		inModes(t, func(t *testing.T, mode string) {
			f := replay(t, inMode(mode, func() simtest.World {
				w := watchBoth(controller.Config[string]{}, func(ctx context.Context, b stores, key string) error {
					a, ok := b.from.Get("a")
					o, there := b.to.Get("b")
					switch n := o.Value.N; {
					case !ok || !there || key != "b" || a.Value.N != 1:
						return nil
					case n == 1060: // the gap begins
						return set(ctx, b.froms, "a", 3)
					case n < 1060 || 2000 <= n && n < 2110: // the latter only in the gap
						return set(ctx, b.tos, "b", n+1)
					}
					return nil
				})
				puts := func(n int) simtest.Step {
					return simtest.Step{Name: "put", Do: func(ctx context.Context, user *simtest.User) error {
						return put(ctx, simtest.Open[number](user, "to"), "b", n)
					}}
				}
				w.Steps = []simtest.Step{w.Steps[0], puts(1000), puts(2000)}
				w.Goal = func(*simtest.View) error { return nil }
				return withAlways(w, "b", func(o store.Object[number], err error) error {
					if err == nil && o.Value.N == limit {
						return errors.New("it is too much")
					}
					return nil
				})
			}), "gap(s from/a#2 to 9)")
			require.NotNil(t, f)
			require.EqualValues(t, "always", f.Rule)
			require.Equal(t, severity, f.Severity, f.Problem)
		})
	}
}

// A lag that needs more reconciles than MaxReconciles is ended. The program may then need even more to remove what it has made.
func TestRepairAfterLongLagIsNoChurn(t *testing.T) {
	most := 0
	f := replay(t, func() simtest.World {
		removed := 0
		w := watchBoth(controller.Config[string]{}, func(ctx context.Context, b stores, key string) error {
			a, ok := b.from.Get("a")
			o, there := b.to.Get("b")
			made := o.Value.N
			most = max(most, made)
			switch {
			case !ok || !there || key == "a":
				return nil
			case a.Value.N == 1 && made == 0: // the gap begins
				return errors.Join(set(ctx, b.froms, "a", 3), set(ctx, b.tos, "b", 1))
			case a.Value.N == 1:
				return set(ctx, b.tos, "b", made+1)
			case made == 1:
				return put(ctx, b.tos, "c", 0)
			}
			if removed++; removed%3 > 0 {
				return put(ctx, b.tos, "c", removed)
			}
			return set(ctx, b.tos, "b", made-1)
		})
		w.Steps = []simtest.Step{w.Steps[0], {Name: "begin", Do: func(ctx context.Context, user *simtest.User) error {
			return put(ctx, simtest.Open[number](user, "to"), "b", 0)
		}}}
		w.Goal = func(*simtest.View) error { return nil }
		w.MaxReconciles = 150
		return w
	}, "gap(s from/a#2 to 9)")
	require.NotNil(t, f)
	require.Equal(t, simtest.Advisory, f.Severity, f.Problem)
	require.Greater(t, most, 130)
}

// twoWorkers is a world in which a reconcile begins before the cache shows the write of another: the system creates objects whose names begin with
// to/a and to/b, and end with the number of the reconcile.
func twoWorkers(trusted bool) simtest.World {
	var n atomic.Int64
	w := watchBoth(controller.Config[string]{Workers: 2, StaleReads: true}, func(ctx context.Context, b stores, key string) error {
		if _, ok := b.from.Get(key); !ok {
			return nil
		}
		return ensure(ctx, b.tos, fmt.Sprint(key, n.Add(1)))
	})
	w.Mode, w.Pairs = "run", -1
	w.Systems[0].Trusted = trusted
	w.Steps = []simtest.Step{create("from", "a b", 0)}
	return w
}

func TestTrustedSystemIsNotDoubted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		text := simtest.Timeline(t, func() simtest.World { return twoWorkers(trusted) }, "")
		inOrder(t, text, "create to/a", "create to/b")
		require.Equal(t, !trusted, strings.Contains(text, "DOUBT"), text)
	}
}

func TestDoubtOfRunWithoutFaultsIsReportedOnce(t *testing.T) {
	doubts := of(simtest.Explore(t, func() simtest.World { return twoWorkers(false) }).Advice, "stale-write")
	require.Len(t, doubts, 1)
	require.Equal(t, simtest.Advisory, doubts[0].Severity)
	require.Contains(t, doubts[0].Problem, "without any fault: ")
	require.Empty(t, doubts[0].More, "the same doubt under a fault says nothing new")
}

// Each process creates two objects, unless its cache has them. The names of the second world differ from process to process, so a stale cache leads to
// more than two objects.
func TestCreationIsDoubtedOnlyUnderNewName(t *testing.T) {
	for what, doubts := range map[string]int{"same names": 0, "new names": 1} {
		processes := 0
		report := simtest.Explore(t, func() simtest.World {
			processes = 0
			w := worldWith("step", systemOf(func(env *simtest.Env) []simtest.Part {
				processes++
				suffix := ""
				if what == "new names" {
					suffix = fmt.Sprint("-of-", processes)
				}
				tos, to := simtest.Mirror[number](env, "to")
				_, from := simtest.Mirror[number](env, "from")
				return []simtest.Part{simtest.Cache(to), loopOf("copy", from, just(func(ctx context.Context, key string) error {
					for have := to.Indexer().Len(); have < 2; have++ {
						if err := ensure(ctx, tos, fmt.Sprint(key, have, suffix)); err != nil {
							return err
						}
					}
					return nil
				}))}
			}))
			w.Goal = func(*simtest.View) error { return nil }
			return w
		})
		none(t, report.Failures)
		require.Len(t, of(report.Advice, "stale-write"), doubts, what)
	}
}
