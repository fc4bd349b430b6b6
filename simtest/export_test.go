package simtest

import "testing"

// Timeline returns what happens under a plan, whether it fails or not.
func Timeline(t *testing.T, world func() World, plan string) string {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	x := newExplorer(t, world)
	return x.play(p).timeline(nil)
}

// Order returns what happens under a plan, without times.
func Order(t *testing.T, world func() World, plan string) string {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	x := newExplorer(t, world)
	return x.play(p).order()
}

// Singles returns the plans of one fault of a world.
func Singles(t *testing.T, world func() World) (plans []string) {
	t.Helper()
	x := newExplorer(t, world)
	for _, c := range singles(x.without(nil)) {
		plans = append(plans, c.String())
	}
	return plans
}

// Pruned returns the plans of one fault that are not tried, each with the one that stands for it.
func Pruned(t *testing.T, world func() World) map[string]string {
	t.Helper()
	x := newExplorer(t, world)
	pruned := make(map[string]string)
	for _, c := range singles(x.without(nil)) {
		if c.like != nil {
			pruned[c.String()] = c.like.String()
		}
	}
	return pruned
}

// End returns what is wrong under a plan, and the objects at the end.
func End(t *testing.T, world func() World, plan string) (wrong string, state map[string]string) {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	x := newExplorer(t, world)
	r := x.play(p)
	if v := verdict(r, x.without(p)); v != nil {
		wrong = v.sort() + ": " + v.text
	}
	return wrong, r.final.state
}
