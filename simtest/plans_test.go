package simtest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			if wrong != likeWrong {
				t.Fatalf("%s: %s: wrong = %q, want %q", name, plan, wrong, likeWrong)
			}
			if diff := cmp.Diff(likeState, state); diff != "" {
				t.Fatalf("%s: %s: state mismatch (-want +got):\n%s", name, plan, diff)
			}
		}
	}
	if pruned <= 20 {
		t.Fatalf("pruned = %v, want more than 20", pruned)
	}
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
				_, err := s.to.Create(ctx, store.Object[number]{Key: "late"})
				return ignore(err, store.ErrExists)
			}
			return nil
		})
		w.Pairs = -1
		return w
	}
	report := simtest.Explore(t, world)
	if len(report.Failures) != 1 {
		t.Fatalf("len(report.Failures) = %d, want 1: %v", len(report.Failures), report.Failures)
	}
	if got, want := report.Failures[0].Plan.String(), "skip(step#2) pause(s get from/a#1)"; got != want {
		t.Fatalf("report.Failures[0].Plan.String() = %q, want %q", got, want)
	}
	if want := "FAULT it hangs for 11m13s"; !strings.Contains(report.Failures[0].Timeline, want) {
		t.Fatalf("report.Failures[0].Timeline = %q, want it to contain %q", report.Failures[0].Timeline, want)
	}
}

// A retry after a long fault still counts.
func TestRetryAfterLongFaultCounts(t *testing.T) {
	inOrder(t, simtest.Timeline(t, copier, "pause(s get to/a#2) lose-request(s update to/a#1)"),
		"hangs", "FAULT the request is lost", "s.1 update to/a")
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
					_, err := s.to.Create(ctx, store.Object[number]{Key: fmt.Sprint(key, i)})
					if err := ignore(err, store.ErrExists); err == nil {
						continue
					} else if failures++; failures < 3 {
						return retry.NotYet(err, time.Second)
					}
					_, err = s.to.Create(ctx, store.Object[number]{Key: "mistake"})
					return ignore(err, store.ErrExists)
				}
				return nil
			})
			if w.Budget = budget; budget > 0 {
				w.Pairs = -1
			}
			return w
		}
	}
	for _, f := range simtest.Explore(t, world(0)).Failures {
		t.Error(f)
	}
	var report *simtest.Report
	for budget := 20 * time.Millisecond; ; budget *= 2 { // a loaded machine tries fewer plans
		report = simtest.Explore(t, world(budget))
		if len(report.Failures) > 0 || budget > time.Minute {
			break
		}
	}
	if len(report.Failures) == 0 {
		t.Fatal("report.Failures is empty")
	}
	if len(report.Failures[0].Plan) != 3 {
		t.Fatalf("%s: len(report.Failures[0].Plan) = %d, want 3: %v", report.Failures[0], len(report.Failures[0].Plan), report.Failures[0].Plan)
	}
	if got := strings.Count(report.Failures[0].Timeline, "FAULT the re"); got != 3 {
		t.Fatalf(`strings.Count(report.Failures[0].Timeline, "FAULT the re") = %v, want 3`, got)
	}
}
