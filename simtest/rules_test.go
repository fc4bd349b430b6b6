package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// of returns the failures that break a rule.
func of(failures []*simtest.Failure, rule simtest.Rule) (some []*simtest.Failure) {
	for _, f := range failures {
		if f.Rule == rule {
			some = append(some, f)
		}
	}
	return some
}

// watchBoth is worldOf, with a cache of both kinds. The keys of both are reconciled.
func watchBoth(reconcile func(context.Context, both, string) error) simtest.World {
	return watchBothWith(controller.Config[string]{}, reconcile)
}

func watchBothWith(cfg controller.Config[string], reconcile func(context.Context, both, string) error) simtest.World {
	cfg.Logger = slog.New(slog.DiscardHandler)
	w := worldOf(simtest.System{}, nil)
	w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
		b := both{env: env, froms: simtest.Open[number](env, "from"), tos: simtest.Open[number](env, "to")}
		quiet := slog.New(slog.DiscardHandler)
		var err1, err2 error
		b.from, err1 = informer.New(b.froms, store.Key, informer.Config{Name: "from", Logger: quiet})
		b.to, err2 = informer.New(b.tos, store.Key, informer.Config{Name: "to", Logger: quiet})
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		c, err := controller.New("copy", func(ctx context.Context, key string) (controller.Result, error) {
			return controller.Result{}, reconcile(ctx, b, key)
		}, cfg, controller.For(b.from), controller.For(b.to))
		return []simtest.Part{simtest.Loop(c)}, err
	}
	return w
}

type both struct {
	env        *simtest.Env
	from, to   *store.Informer[number]
	froms, tos store.Store[number]
}

func TestHotLoopDiffersFromChurn(t *testing.T) {
	for rule, write := range map[simtest.Rule]bool{"hot-loop": false, "churn": true} {
		report := simtest.Explore(t, func() simtest.World {
			n := 0
			return watchBoth(func(ctx context.Context, b both, key string) error {
				n++
				if !write {
					return retry.NotYet(errors.New("never"), 100*time.Millisecond)
				}
				_, err := store.CreateOrUpdate(ctx, b.tos, nil, key, func(o *store.Object[number]) error {
					o.Value.N = n
					return nil
				})
				return err
			})
		})
		require.Len(t, report.Failures, 1)
		require.Equal(t, rule, report.Failures[0].Rule)
		require.Contains(t, report.Failures[0].String(), "does not become quiet: 1000 reconciles")
	}
}

// A process that copies stale reads undoes the user's change.
func TestUndoneUserWriteIsFound(t *testing.T) {
	world := func() simtest.World {
		first := true
		w := watchBoth(func(ctx context.Context, b both, key string) error {
			o, ok := b.from.Get(key)
			if !ok || o.Value.N != 2 || !first {
				return nil
			}
			_, err := b.tos.Create(ctx, store.Object[number]{Key: key})
			if errors.Is(err, simtest.ErrLost) {
				first = false
				_, err = store.Patch(ctx, b.froms, key, func(o *store.Object[number]) error {
					o.Value.N = 1
					return nil
				})
			}
			return ignore(err, store.ErrExists)
		})
		w.Goal = func(*simtest.View) error { return nil }
		return w
	}
	report := simtest.Explore(t, world)
	require.Len(t, report.Failures, 1, "%v", report.Failures)
	require.EqualValues(t, "lost-write", report.Failures[0].Rule)
	require.Contains(t, report.Failures[0].String(), "the user set N of from/a to 2, and at the end it is 1 again")
	require.Contains(t, report.Failures[0].String(), "state  ~ from/a N: 2 -> 1")
}

func TestTwoLiveOwnersAreFound(t *testing.T) {
	world := func(both bool) func() simtest.World {
		return func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				o, ok := s.from.Get(key)
				if !ok || key != "a" {
					return nil
				}
				_, err := s.to.Create(ctx, store.Object[number]{Key: "child", Owners: []store.OwnerRef{{Ref: o.Ref(), Controller: true}}})
				if errors.Is(err, simtest.ErrLost) && both {
					_, err = store.Patch(ctx, s.to, "child", func(c *store.Object[number]) error {
						c.Owners = append(c.Owners, store.OwnerRef{Ref: store.Ref{Kind: "from", Key: "b", UID: "uid-1"}, Controller: true})
						return nil
					})
				}
				return ignore(ignore(err, store.ErrNotFound), store.ErrExists)
			})
			other := simtest.Step{Name: "other", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := simtest.Open[number](user, "from").Create(ctx, store.Object[number]{Key: "b"})
				return err
			}}
			w.Steps = append([]simtest.Step{other}, w.Steps...)
			w.Goal = func(*simtest.View) error { return nil }
			return w
		}
	}
	require.Empty(t, of(simtest.Explore(t, world(false)).Failures, "two-owners"))
	require.NotEmpty(t, of(simtest.Explore(t, world(true)).Failures, "two-owners"))
}

// A deletion by name on a stale view is advisory. A deletion with the UID, or after a read of the store, is not
// reported.
func TestDeleteByNameOnStaleViewIsAdvisory(t *testing.T) {
	world := func(how string) func() simtest.World {
		return func() simtest.World {
			w := watchBoth(func(ctx context.Context, b both, key string) error {
				o, ok := b.from.Get(key)
				if !ok {
					return nil
				}
				if o.Value.N != 2 {
					_, err := b.tos.Create(ctx, store.Object[number]{Key: key})
					return ignore(err, store.ErrExists)
				}
				c, ok := b.to.Get(key)
				if !ok {
					return nil
				}
				var pre []store.Precondition
				switch how {
				case "uid":
					pre = append(pre, store.IfUID(c.UID))
				case "read":
					if _, err := b.tos.Get(ctx, key); err != nil {
						return ignore(err, store.ErrNotFound)
					}
				}
				_, err := b.tos.Delete(ctx, key, pre...)
				return ignore(ignore(err, store.ErrNotFound), store.ErrConflict)
			})
			w.Steps = append(w.Steps, simtest.Step{Name: "change back", Do: func(ctx context.Context, user *simtest.User) error {
				_, err := store.Patch(ctx, simtest.Open[number](user, "from"), "a", func(o *store.Object[number]) error {
					o.Value.N = 3
					return nil
				})
				return ignore(err, store.ErrNotFound)
			}})
			w.Pairs = -1
			return w
		}
	}
	for how, want := range map[string]int{"name": 1, "uid": 0, "read": 0} {
		report := simtest.Explore(t, world(how))
		doubts := of(report.Advice, "stale-delete")
		if want == 0 {
			require.Empty(t, doubts, how)
		} else {
			require.NotEmpty(t, doubts)
			require.Equal(t, simtest.Advisory, doubts[0].Severity)
			require.Contains(t, doubts[0].Timeline, "DOUBT it deletes on a view of")
		}
	}
}

// A creation based on a cache that does not show the last one is advisory. This system creates as many objects as it
// cannot see.
func TestCreateOnStaleCacheIsAdvisory(t *testing.T) {
	world := func() simtest.World {
		w := watchBoth(func(ctx context.Context, b both, key string) error {
			o, ok := b.from.Get(key)
			if !ok || size(b.to) >= o.Value.N {
				return nil
			}
			for i := range 9 {
				_, err := b.tos.Create(ctx, store.Object[number]{Key: fmt.Sprint("child", i)})
				if !errors.Is(err, store.ErrExists) {
					return errors.Join(err, retry.NotYet(errors.New("is it enough?"), 0))
				}
			}
			return nil
		})
		w.Goal = func(*simtest.View) error { return nil }
		return w
	}
	// A process that has hung once and continues may hang again: the one that took over continues.
	simtest.Timeline(t, world, "zombie(s create to/child0#1) zombie(s create to/child1#1)")
	doubts := of(simtest.Explore(t, world).Advice, "stale-write")
	require.Len(t, doubts, 1)
	require.Contains(t, doubts[0].Timeline, "DOUBT it creates on a view of to at version ")
	require.Contains(t, doubts[0].Timeline, ", before its own last write")
}

// As long as the cache of from lags, each write of to/b leads to the next. Real caches do not lag that long.
func TestAlarmNeedingUnfairFaultIsAdvisory(t *testing.T) {
	report := simtest.Explore(t, feedsOnALag)
	for _, f := range report.Failures {
		t.Error(f)
	}
	doubts := of(report.Advice, "churn")
	require.Len(t, doubts, 1)
	require.Equal(t, simtest.Advisory, doubts[0].Severity)
	require.Contains(t, doubts[0].Problem, "only while the cache of from by s.1 lags, by then for ")
}

// A user's alarm is advisory, too, and says so, if it needs more than 100 reconciles during a lag. With fewer, it is
// a bug.
func TestUserAlarmNeedingUnfairFaultIsAdvisory(t *testing.T) {
	for _, mode := range []string{"step", "run"} {
		for limit, severity := range map[int]simtest.Severity{50: simtest.Bug, 150: simtest.Advisory} {
			report := simtest.Explore(t, func() simtest.World {
				w := feedsOnALag()
				w.Mode = mode
				w.Always = func(v *simtest.View) error {
					o, err := simtest.Open[number](v, "to").Get(context.Background(), "b")
					if err == nil && o.Value.N == limit {
						return errors.New("it is too much")
					}
					return nil
				}
				return w
			})
			found, other := report.Failures, report.Advice
			if severity == simtest.Advisory {
				found, other = other, found
			}
			require.Empty(t, of(other, "always"))
			alarms := of(found, "always")
			require.Len(t, alarms, 1)
			require.Equal(t, severity, alarms[0].Severity)
			require.Equal(t, severity == simtest.Advisory, strings.Contains(alarms[0].Problem, "it is too much; only while the cache of from by s.1 lags"))
		}
	}
}

// feedsOnALag is a world in which each write of to/b leads to the next while the cache of from shows the past.
func feedsOnALag() simtest.World {
	w := watchBoth(func(ctx context.Context, b both, key string) error {
		o, ok := b.from.Get("a")
		if !ok {
			return nil
		}
		switch {
		case key == "a" && o.Value.N == 2:
			o.Value.N = 3
			if _, err := b.froms.Update(ctx, o); err != nil {
				return err
			}
			_, err := b.tos.Create(ctx, store.Object[number]{Key: "b"})
			return ignore(err, store.ErrExists)
		case key == "b" && o.Value.N == 2:
			_, err := store.Patch(ctx, b.tos, "b", func(c *store.Object[number]) error {
				c.Value.N++
				return nil
			})
			return err
		case o.Value.N == 3:
			_, err := store.CreateOrUpdate(ctx, b.tos, nil, "b", func(c *store.Object[number]) error {
				c.Value.N = 0
				return nil
			})
			return err
		}
		return nil
	})
	w.Pairs = -1
	return w
}

func TestNondeterministicPlanIsReported(t *testing.T) {
	var calls atomic.Int64
	report := simtest.Explore(t, func() simtest.World {
		return worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			if _, ok := s.from.Get(key); !ok {
				return nil
			}
			_, err := s.to.Create(ctx, store.Object[number]{Key: key})
			if errors.Is(err, simtest.ErrLost) {
				_, err = s.to.Create(ctx, store.Object[number]{Key: fmt.Sprint("mistake", calls.Add(1))})
			}
			return ignore(err, store.ErrExists)
		})
	})
	require.NotEmpty(t, of(report.Advice, "nondeterminism"))
	require.Contains(t, of(report.Advice, "nondeterminism")[0].Problem, "a second run of this plan differs")
}

func TestEveryRuleIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/testing.md")
	require.NoError(t, err)
	for _, rule := range simtest.Rules() {
		require.NotEmpty(t, rule.Means(), rule)
		require.Contains(t, []simtest.Severity{simtest.Bug, simtest.Advisory}, rule.Severity())
		row := fmt.Sprintf("| `%s` | %s | %s |", rule, rule.Severity(), rule.Means())
		require.Contains(t, string(page), row)
	}
	require.Empty(t, simtest.Rule("nothing").Means())
	require.True(t, slices.IsSortedFunc(simtest.Rules(), func(a, b simtest.Rule) int {
		return strings.Compare(string(b.Severity()), string(a.Severity()))
	}), "bugs come first")
}

// size returns how many objects a cache has.
func size(in *store.Informer[number]) (n int) {
	for range in.All() {
		n++
	}
	return n
}
