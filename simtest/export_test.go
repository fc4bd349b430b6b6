package simtest

import (
	"testing"

	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/search"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/timeline"
)

func explorerOf(t *testing.T, world func() World) *search.Explorer {
	return search.New((&player{t: t, world: world}).play)
}

func playText(t *testing.T, world func() World, plan string) *sim.Run {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	return explorerOf(t, world).Play(p.faults())
}

// Timeline returns what happens under a plan, whether it fails or not.
func Timeline(t *testing.T, world func() World, plan string) string {
	t.Helper()
	return timeline.Format(playText(t, world, plan).Timeline.Lines(nil))
}

// Order returns what happens under a plan, without times.
func Order(t *testing.T, world func() World, plan string) string {
	t.Helper()
	return playText(t, world, plan).Timeline.Order()
}

// PlayUntilWarned runs a plan. Warn gets the warning that it takes too long, which comes at once.
func PlayUntilWarned(t *testing.T, world func() World, plan string, warn func(string)) {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	(&player{t: t, world: world, patience: 1, warn: warn}).play(p.faults())
}

// Tried returns the plans of an exploration without a corpus, in their order.
func Tried(t *testing.T, world func() World, limits search.Limits) (plans []string) {
	t.Helper()
	play := (&player{t: t, world: world}).play
	search.New(func(plan fault.Plan) *sim.Run {
		plans = append(plans, plan.String())
		return play(plan)
	}).Explore(t.TempDir(), limits)
	return plans
}

// Singles returns the plans of one fault of a world.
func Singles(t *testing.T, world func() World) (plans []string) {
	t.Helper()
	for _, s := range search.Singles(explorerOf(t, world).Without(nil)) {
		plans = append(plans, s.String())
	}
	return plans
}

// Pruned returns the plans of one fault that are not tried, each with the one that stands for it.
func Pruned(t *testing.T, world func() World) map[string]string {
	t.Helper()
	pruned := make(map[string]string)
	for _, s := range search.Singles(explorerOf(t, world).Without(nil)) {
		if s.Like != nil {
			pruned[s.String()] = s.Like.String()
		}
	}
	return pruned
}

// Ends returns a function that runs a plan, and returns what is wrong and the objects at the end.
func Ends(t *testing.T, world func() World) func(plan string) (wrong string, state map[string]string) {
	x := explorerOf(t, world)
	return func(plan string) (wrong string, state map[string]string) {
		t.Helper()
		p, err := ParsePlan(plan)
		if err != nil {
			t.Fatal(err)
		}
		r := x.Play(p.faults())
		if v := r.Verdict(x.Without(r.Plan)); v != nil {
			wrong = v.Sort() + ": " + v.Text
		}
		if r.End != nil {
			state = r.End.State
		}
		return wrong, state
	}
}
