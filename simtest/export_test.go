package simtest

import "testing"

// Timeline returns what happens under a plan, whether it fails or not.
func Timeline(t *testing.T, world func() World, plan string) string {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	x := &explorer{t: t, world: world, fair: make(map[string]*run)}
	return x.play(p, x.allSteps()).timeline()
}

// Order returns what happens under a plan, without times.
func Order(t *testing.T, world func() World, plan string) string {
	t.Helper()
	p, err := ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	x := &explorer{t: t, world: world, fair: make(map[string]*run)}
	return x.play(p, x.allSteps()).order()
}

// Singles returns the plans of one fault of a world.
func Singles(t *testing.T, world func() World) (plans []string) {
	t.Helper()
	x := &explorer{t: t, world: world, fair: make(map[string]*run)}
	for _, f := range singles(x.without(x.allSteps()), len(x.allSteps())) {
		plans = append(plans, f.String())
	}
	return plans
}
