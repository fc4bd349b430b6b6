package simtest

import "testing"

func playText(t *testing.T, world func() World, plan string) *run {
	t.Helper()
	return newExplorer(t, world).play(planOf(t, plan))
}

func planOf(t *testing.T, text string) Plan {
	t.Helper()
	p, err := ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Timeline returns what happens under a plan, whether it fails or not.
func Timeline(t *testing.T, world func() World, plan string) string {
	t.Helper()
	return formatLines(playText(t, world, plan).timeline.lines(nil))
}

// Order returns what happens under a plan, without times.
func Order(t *testing.T, world func() World, plan string) string {
	t.Helper()
	return playText(t, world, plan).timeline.order()
}

// PlayUntilWarned runs a plan. Warn gets the warning that it takes too long, which comes at once.
func PlayUntilWarned(t *testing.T, world func() World, plan string, warn func(string)) {
	t.Helper()
	x := newExplorer(t, world)
	x.patience, x.warn = 1, warn
	x.play(planOf(t, plan))
}

// Tried returns the plans of an exploration without a corpus, in their order.
func Tried(t *testing.T, world func() World) (plans []string) {
	t.Helper()
	x := newExplorer(t, world)
	play := x.play
	x.play = func(plan Plan) *run {
		plans = append(plans, plan.String())
		return play(plan)
	}
	x.explore(t.TempDir())
	return plans
}

// Singles returns the plans of one fault of a world.
func Singles(t *testing.T, world func() World) (plans []string) {
	t.Helper()
	for _, s := range singles(newExplorer(t, world).withoutFaults(nil)) {
		plans = append(plans, s.String())
	}
	return plans
}

// Pruned returns the plans of one fault that are not tried, each with the one that stands for it.
func Pruned(t *testing.T, world func() World) map[string]string {
	t.Helper()
	pruned := make(map[string]string)
	for _, s := range singles(newExplorer(t, world).withoutFaults(nil)) {
		if s.like != nil {
			pruned[s.String()] = s.like.String()
		}
	}
	return pruned
}

// Ends returns a function that runs a plan, and returns what is wrong and the objects at the end.
func Ends(t *testing.T, world func() World) func(plan string) (wrong string, state map[string]string) {
	x := newExplorer(t, world)
	return func(text string) (wrong string, state map[string]string) {
		t.Helper()
		plan := planOf(t, text)
		r := x.play(plan)
		if p := r.problemBeside(x.withoutFaults(plan)); p != nil {
			wrong = p.sort() + ": " + p.text
		}
		if r.final != nil {
			state = r.final.texts
		}
		return wrong, state
	}
}
