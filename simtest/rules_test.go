package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// A process that copies stale reads undoes the user's change.
func TestUndoneUserWriteIsFound(t *testing.T) {
	world := func() simtest.World {
		first := true
		w := watchBoth(controller.Config[string]{}, func(ctx context.Context, b stores, key string) error {
			o, ok := b.from.Get(key)
			if !ok || o.Value.N != 2 || !first {
				return nil
			}
			_, err := b.tos.Create(ctx, store.Object[number]{Key: key})
			if errors.Is(err, simtest.ErrLost) {
				first = false
				err = set(ctx, b.froms, key, 1)
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
	require.Contains(t, report.Failures[0].String(), "state  ~ from/a N: is 1, expected 2")
}

func TestTwoLiveOwnersAreFound(t *testing.T) {
	world := func(both bool) func() simtest.World {
		return func() simtest.World {
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				o, ok := s.from.Get(key)
				if !ok || key != "a" {
					return nil
				}
				_, err := s.tos.Create(ctx, store.Object[number]{Key: "child", Owners: []store.OwnerRef{{Ref: o.Ref(), Controller: true}}})
				if errors.Is(err, simtest.ErrLost) && both {
					_, err = store.Patch(ctx, s.tos, "child", func(c *store.Object[number]) error {
						c.Owners = append(c.Owners, store.OwnerRef{Ref: store.Ref{Kind: "from", Key: "b", UID: "uid-1"}, Controller: true})
						return nil
					})
				}
				return ignore(ignore(err, store.ErrNotFound), store.ErrExists)
			})
			w.Steps = append([]simtest.Step{create("from", "b", 0)}, w.Steps...)
			w.Goal = func(*simtest.View) error { return nil }
			return w
		}
	}
	require.Empty(t, of(simtest.Explore(t, world(false)).Failures, "two-owners"))
	require.NotEmpty(t, of(simtest.Explore(t, world(true)).Failures, "two-owners"))
}

// As long as the cache of from lags, each write of to/b leads to the next. Real caches do not lag that long.
func TestAlarmNeedingUnfairFaultIsAdvisory(t *testing.T) {
	report := simtest.Explore(t, feedsOnALag)
	none(t, report.Failures)
	doubts := of(report.Advice, "churn")
	require.Len(t, doubts, 1)
	require.Equal(t, simtest.Advisory, doubts[0].Severity)
	require.Contains(t, doubts[0].Problem, "only while the cache of from by s.1 lags, by then for ")
}

// A user's alarm is advisory, too, and says so, if it needs more than 100 reconciles during a lag. With fewer, it is
// a bug.
func TestUserAlarmNeedingUnfairFaultIsAdvisory(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		for limit, severity := range map[int]simtest.Severity{50: simtest.Bug, 150: simtest.Advisory} {
			report := simtest.Explore(t, func() simtest.World {
				w := feedsOnALag()
				w.Mode = mode
				return withAlways(w, "b", func(o store.Object[number], err error) error {
					if err == nil && o.Value.N == limit {
						return errors.New("it is too much")
					}
					return nil
				})
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
	})
}

// feedsOnALag is a world in which each write of to/b leads to the next while the cache of from shows the past.
func feedsOnALag() simtest.World {
	w := watchBoth(controller.Config[string]{}, func(ctx context.Context, b stores, key string) error {
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
			return ensure(ctx, b.tos, "b")
		case key == "b" && o.Value.N == 2:
			_, err := store.Patch(ctx, b.tos, "b", func(c *store.Object[number]) error {
				c.Value.N++
				return nil
			})
			return err
		case o.Value.N == 3:
			return put(ctx, b.tos, "b", 0)
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
			_, err := s.tos.Create(ctx, store.Object[number]{Key: key})
			if errors.Is(err, simtest.ErrLost) {
				err = ensure(ctx, s.tos, fmt.Sprint("mistake", calls.Add(1)))
			}
			return ignore(err, store.ErrExists)
		})
	})
	require.NotEmpty(t, of(report.Advice, "nondeterminism"))
	require.Contains(t, of(report.Advice, "nondeterminism")[0].Problem, "a second run of this plan differs")
}

func TestEveryRuleIsDocumented(t *testing.T) {
	page, err := os.ReadFile("README.md")
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
