package simtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/owner"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/simtest"
	"github.com/setpoint-go/setpoint/store"
)

// A pruned plan ends like the plan that represents it.
func TestPrunedPlanEndsLikeItsRepresentative(t *testing.T) {
	pruned := 0
	for name, world := range map[string]func() simtest.World{
		"copier": copier, "sites": sitesWorld, "farms": farms("", true, owner.Background), "led": farms("main", true, owner.Foreground),
	} {
		ends := simtest.Ends(t, world)
		for plan, like := range simtest.Pruned(t, world) {
			pruned++
			wrong, state := ends(plan)
			likeWrong, likeState := ends(like)
			require.Equal(t, likeWrong, wrong, "%s: %s", name, plan)
			require.Equal(t, likeState, state, "%s: %s", name, plan)
		}
	}
	require.Greater(t, pruned, 20)
}

// A lock of the process has expired when the process continues after a pause.
func TestEachCallTakesTime(t *testing.T) {
	world := func() simtest.World {
		var until time.Time
		w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
			if _, ok := s.from.Get(key); !ok {
				return nil
			}
			until = time.Now().Add(10 * time.Minute)
			if _, err := s.froms.Get(ctx, key); err != nil {
				return ignore(err, store.ErrNotFound)
			}
			if time.Now().After(until) {
				return ensure(ctx, s.tos, "late")
			}
			return nil
		})
		w.Pairs = -1
		return w
	}
	report := simtest.Explore(t, world)
	require.Len(t, report.Failures, 1)
	require.Equal(t, "skip(step#2) pause(s get from/a#1)", report.Failures[0].Plan.String())
	require.Contains(t, report.Failures[0].Timeline, "FAULT it hangs for 11m13s")
}

// A retry after a long fault still counts.
func TestRetryAfterLongFaultCounts(t *testing.T) {
	inOrder(t, simtest.Timeline(t, copier, "pause(s get to/a#2) lose-request(s update to/a#1)"),
		"hangs", "FAULT the request is lost", "s.1 update to/a")
}

// Caches catch up within a minute, also while another system hangs for longer.
func TestHangOfOneSystemDoesNotHoldUpCachesOfAnother(t *testing.T) {
	inModes(t, func(t *testing.T, mode string) {
		world := inMode(mode, func() simtest.World {
			w := led()
			other := systemOf(func(env *simtest.Env) []simtest.Part {
				_, from := simtest.Mirror[number](env, "from")
				others := simtest.Open[number](env, "other")
				return []simtest.Part{loopOf("other", from, just(func(ctx context.Context, key string) error {
					_, err := others.Get(ctx, key)
					return ignore(err, store.ErrNotFound)
				}))}
			})
			other.Name = "other"
			w.Systems = append(w.Systems, other)
			return w
		})
		inOrder(t, simtest.Timeline(t, world, "travel(s create to/a#1 back 1) pause(other get other/a#1)"),
			"FAULT it starts, and its caches begin at version 1", "other.1 FAULT it hangs for 11m13s", "1m0s s.2 its cache of from catches up", "11m14s user STEP change")
	})
}

// Three faults together break this world, and no two of them do.
func TestRandomPlansHaveMoreFaults(t *testing.T) {
	world := func(budget time.Duration) func() simtest.World {
		return func() simtest.World {
			failures := 0
			w := worldOf(simtest.System{}, func(ctx context.Context, s stores, key string) error {
				if _, ok := s.from.Get(key); !ok {
					return nil
				}
				for i := range 4 {
					if err := ensure(ctx, s.tos, fmt.Sprint(key, i)); err == nil {
						continue
					} else if failures++; failures < 3 {
						return retry.NotYet(err, time.Second)
					}
					return ensure(ctx, s.tos, "mistake")
				}
				return nil
			})
			if w.Budget = budget; budget > 0 {
				w.Pairs = -1
			}
			return w
		}
	}
	none(t, simtest.Explore(t, world(0)).Failures)
	var report *simtest.Report
	for budget := 20 * time.Millisecond; ; budget *= 2 { // a loaded machine tries fewer plans
		report = simtest.Explore(t, world(budget))
		if len(report.Failures) > 0 || budget > time.Minute {
			break
		}
	}
	require.NotEmpty(t, report.Failures)
	plan := report.Failures[0].Plan.String()
	require.GreaterOrEqual(t, strings.Count(plan, "(")-strings.Count(plan, "skip("), 3, "%s", report.Failures[0])
}
