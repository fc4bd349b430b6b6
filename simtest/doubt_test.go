package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// put creates to/key, unless it exists.
func put(ctx context.Context, b both, key string) error {
	_, err := b.tos.Create(ctx, store.Object[number]{Key: key})
	return ignore(err, store.ErrExists)
}

// touch changes from/a, so that the controller reconciles it again while the cache of to lags.
func touch(ctx context.Context, b both) error {
	_, err := store.Patch(ctx, b.froms, "a", func(o *store.Object[number]) error { o.Value.N += 10; return nil })
	return err
}

// In each world, the system has created to/a in its first reconcile of from/a, and its cache of to lags from then on.
func TestDoubtsOfACreation(t *testing.T) {
	const lag = "lag(s create to/a#1 of to)"
	// turn is one reconcile of from/a after the first, with what the system does in it.
	type turn = func(ctx context.Context, b both) error
	creates := func(key string) turn {
		return func(ctx context.Context, b both) error { return put(ctx, b, key) }
	}
	for name, c := range map[string]struct {
		turns []turn // while the cache lags
		after turn   // after the next step of the user, when the cache has caught up
		want  int
	}{
		"right after its own write": {turns: []turn{creates("b")}, want: 1},
		"of another kind": {turns: []turn{func(ctx context.Context, b both) error {
			_, err := b.froms.Create(ctx, store.Object[number]{Key: "b"})
			return ignore(err, store.ErrExists)
		}}, want: 0},
		"after a read of the object": {turns: []turn{func(ctx context.Context, b both) error {
			_, err := b.tos.Get(ctx, "b")
			return errors.Join(ignore(err, store.ErrNotFound), put(ctx, b, "b"))
		}}, want: 0},
		"after a read of another object": {turns: []turn{func(ctx context.Context, b both) error {
			_, err := b.tos.Get(ctx, "c")
			return errors.Join(ignore(err, store.ErrNotFound), put(ctx, b, "b"))
		}}, want: 1},
		"after a list": {turns: []turn{func(ctx context.Context, b both) error {
			_, err := b.tos.List(ctx)
			return errors.Join(err, put(ctx, b, "b"))
		}}, want: 0},
		"after a read by an earlier reconcile": {turns: []turn{func(ctx context.Context, b both) error {
			_, err := b.tos.Get(ctx, "b")
			return ignore(err, store.ErrNotFound)
		}, creates("b")}, want: 1},
		"after the cache has caught up": {turns: []turn{creates("b")}, after: creates("c"), want: 1},
	} {
		for _, mode := range []string{"step", "run"} {
			world := func() simtest.World {
				n := 0
				w := watchBothWith(stale, func(ctx context.Context, b both, key string) error {
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
						return errors.Join(put(ctx, b, "a"), touch(ctx, b))
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
			require.Equal(t, c.want, strings.Count(text, "DOUBT it creates on a view of to"), "%s, mode %s:\n%s", name, mode, text)
			require.NotContains(t, simtest.Timeline(t, world, ""), "DOUBT", name)
		}
	}
}

// A write that the cache does not show is not doubtful if another system has made it.
func TestNoDoubtAfterWriteOfAnotherSystem(t *testing.T) {
	world := func() simtest.World {
		w := watchBothWith(stale, func(ctx context.Context, b both, key string) error {
			o, ok := b.from.Get("a")
			switch {
			case key != "a" || !ok:
				return nil
			case o.Value.N == 1:
				return b.env.Effect(ctx, "look", func(context.Context) error { return nil })
			case o.Value.N == 11:
				return put(ctx, b, "own")
			}
			return nil
		})
		other := watchBothWith(stale, func(ctx context.Context, b both, key string) error {
			if o, ok := b.from.Get("a"); !ok || key != "a" || o.Value.N != 1 {
				return nil
			}
			return errors.Join(put(ctx, b, "other"), touch(ctx, b))
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
	for name, c := range map[string]struct {
		pre  func(store.Object[number]) []store.Precondition
		want int
	}{
		"by name": {func(store.Object[number]) []store.Precondition { return nil }, 1},
		"by UID":  {func(o store.Object[number]) []store.Precondition { return []store.Precondition{store.IfUID(o.UID)} }, 0},
		"by version": {func(o store.Object[number]) []store.Precondition {
			return []store.Precondition{store.IfVersion(o.Version)}
		}, 0},
	} {
		world := func() simtest.World {
			return watchBothWith(stale, func(ctx context.Context, b both, key string) error {
				switch o, ok := b.from.Get("a"); {
				case !ok:
					return nil
				case key == "a" && o.Value.N == 1:
					return errors.Join(put(ctx, b, "x"), touch(ctx, b))
				}
				x, ok := b.to.Get("x")
				if key != "x" || !ok {
					return nil
				}
				_, err := b.tos.Delete(ctx, "x", c.pre(x)...)
				return ignore(err, store.ErrNotFound)
			})
		}
		text := simtest.Timeline(t, world, "lag(s update from/a#1 of from)")
		inOrder(t, text, "its cache of from lags", "s.1 delete to/x")
		require.Equal(t, c.want, strings.Count(text, "DOUBT it deletes on a view of from at version "), "%s:\n%s", name, text)
		require.NotContains(t, simtest.Timeline(t, world, ""), "DOUBT", name)
	}
}

// A report counts doubts by what is written and what is stale. A plan counts once, no matter how often it is doubtful.
func TestDoubtsAreCountedByKind(t *testing.T) {
	report := simtest.Explore(t, func() simtest.World {
		w := watchBothWith(stale, func(ctx context.Context, b both, key string) error {
			others := simtest.Open[number](b.env, "other")
			switch o, ok := b.from.Get("a"); {
			case !ok:
				return nil
			case key == "a" && o.Value.N == 1:
				_, err := others.Create(ctx, store.Object[number]{Key: "z"})
				return errors.Join(ignore(err, store.ErrExists), put(ctx, b, "x"), put(ctx, b, "y"), touch(ctx, b))
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
			w := watchBothWith(stale, func(ctx context.Context, b both, key string) error {
				o, ok := b.from.Get("a")
				switch {
				case key != "a" || !ok:
					return nil
				case o.Value.N == 1:
					return errors.Join(put(ctx, b, "a"), touch(ctx, b))
				}
				if _, ok := b.to.Get("a"); ok || o.Value.N != 11 {
					return nil
				}
				time.Sleep(lasts)
				_, err := store.Patch(ctx, b.tos, "a", func(o *store.Object[number]) error { o.Value.N = 9; return nil })
				return err
			})
			w.Goal = func(*simtest.View) error { return nil }
			raised := false // for a moment: an alarm that outlasts the lag is a bug
			w.Always = func(v *simtest.View) error {
				o, err := simtest.Open[number](v, "to").Get(context.Background(), "a")
				if err != nil || o.Value.N != 9 || raised {
					return nil
				}
				raised = true
				return errors.New("it is nine")
			}
			return w
		}
		plan, err := simtest.ParsePlan("lag(s create to/a#1 of to)")
		require.NoError(t, err)
		f := simtest.Replay(t, world, plan)
		require.NotNil(t, f)
		require.EqualValues(t, "always", f.Rule)
		require.Equal(t, severity, f.Severity, "%v: %s", lasts, f.Problem)
		require.Equal(t, severity == simtest.Advisory, strings.Contains(f.Problem, fmt.Sprintf("by then for %v", lasts)))
	}
}

// Writes before the last step of the user do not turn a hot loop into churn.
func TestHotLoopAfterWritesIsNoChurn(t *testing.T) {
	f := simtest.Replay(t, func() simtest.World {
		w := watchBoth(func(ctx context.Context, b both, key string) error {
			if o, ok := b.from.Get(key); ok && o.Value.N == 2 {
				return retry.NotYet(errors.New("never"), time.Second)
			}
			return put(ctx, b, "a")
		})
		w.MaxReconciles = 100
		return w
	}, nil)
	require.NotNil(t, f)
	require.EqualValues(t, "hot-loop", f.Rule, f.Problem)
}

// One write in a hundred reconciles makes it churn.
func TestLoopWithFewWritesIsChurn(t *testing.T) {
	f := simtest.Replay(t, func() simtest.World {
		n := 0
		w := watchBoth(func(ctx context.Context, b both, key string) error {
			if n++; n%10 == 1 {
				_, err := store.CreateOrUpdate(ctx, b.tos, nil, "a", func(o *store.Object[number]) error { o.Value.N = n; return nil })
				return errors.Join(err, retry.NotYet(errors.New("never"), time.Second))
			}
			return retry.NotYet(errors.New("never"), time.Second)
		})
		w.MaxReconciles = 100
		return w
	}, nil)
	require.NotNil(t, f)
	require.EqualValues(t, "churn", f.Rule, f.Problem)
}

// A lag that lasts beyond a step of the user is fair for another 100 reconciles.
func TestStepRestartsCountOfLag(t *testing.T) {
	plan, err := simtest.ParsePlan("gap(s from/a#2 to 9)")
	require.NoError(t, err)
	for limit, severity := range map[int]simtest.Severity{2095: simtest.Bug, 2105: simtest.Advisory} {
		for _, mode := range []string{"step", "run"} {
			f := simtest.Replay(t, inMode(mode, func() simtest.World {
				w := watchBoth(func(ctx context.Context, b both, key string) error {
					a, ok := b.from.Get("a")
					o, there := b.to.Get("b")
					switch n := o.Value.N; {
					case !ok || !there || key != "b" || a.Value.N != 1:
						return nil
					case n == 1060: // the gap begins
						_, err := store.Patch(ctx, b.froms, "a", func(a *store.Object[number]) error { a.Value.N = 3; return nil })
						return err
					case n < 1060 || 2000 <= n && n < 2110: // the latter only in the gap
						_, err := store.Patch(ctx, b.tos, "b", func(o *store.Object[number]) error { o.Value.N++; return nil })
						return err
					}
					return nil
				})
				set := func(n int) simtest.Step {
					return simtest.Step{Name: fmt.Sprint("set ", n), Do: func(ctx context.Context, user *simtest.User) error {
						tos := simtest.Open[number](user, "to")
						_, err := store.CreateOrUpdate(ctx, tos, nil, "b", func(o *store.Object[number]) error { o.Value.N = n; return nil })
						return err
					}}
				}
				w.Steps = []simtest.Step{w.Steps[0], set(1000), set(2000)}
				w.Always = func(v *simtest.View) error {
					if o, err := simtest.Open[number](v, "to").Get(context.Background(), "b"); err == nil && o.Value.N == limit {
						return errors.New("it is too much")
					}
					return nil
				}
				w.Goal = func(*simtest.View) error { return nil }
				return w
			}), plan)
			require.NotNil(t, f)
			require.EqualValues(t, "always", f.Rule)
			require.Equal(t, severity, f.Severity, "%s: %s", mode, f.Problem)
		}
	}
}

// twoWorkers is a world in which a reconcile begins before the cache shows the write of another: the system creates to/a and to/b.
func twoWorkers(trusted bool) simtest.World {
	w := watchBothWith(controller.Config[string]{Workers: 2, StaleReads: true}, func(ctx context.Context, b both, key string) error {
		if _, ok := b.from.Get(key); !ok {
			return nil
		}
		return put(ctx, b, key)
	})
	w.Mode, w.Pairs = "run", -1
	w.Systems[0].Trusted = trusted
	w.Steps = []simtest.Step{{Name: "create", Do: func(ctx context.Context, user *simtest.User) error {
		froms := simtest.Open[number](user, "from")
		_, err1 := froms.Create(ctx, store.Object[number]{Key: "a"})
		_, err2 := froms.Create(ctx, store.Object[number]{Key: "b"})
		return errors.Join(err1, err2)
	}}}
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
	require.Contains(t, doubts[0].Problem, "without any fault: ")
	require.Empty(t, doubts[0].More, "the same doubt under a fault says nothing new")
}
