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
	for _, f := range singles(x.without(nil)) {
		plans = append(plans, f.String())
	}
	return plans
}
