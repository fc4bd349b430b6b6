package classics_test

import (
	"testing"

	"github.com/setpoint-go/setpoint/simtest"
)

// In run mode, the real Manager runs the systems, with the real election.
func TestBothModesAgree(t *testing.T) {
	for _, c := range classics {
		t.Run(c.name, func(t *testing.T) {
			fails := make(map[string]map[string]simtest.Plan) // by mode and text
			for _, mode := range []string{"step", "run"} {
				report := c.explore(t, false, mode)
				if len(report.Failures) == 0 {
					t.Fatal("report.Failures is empty")
				}
				fails[mode] = make(map[string]simtest.Plan)
				for _, f := range report.Failures {
					for _, plan := range append(f.More, f.Plan) {
						fails[mode][plan.String()] = plan
					}
				}
			}
			for mode, other := range map[string]string{"step": "run", "run": "step"} {
				for text, plan := range fails[mode] {
					if fails[other][text] == nil && simtest.Replay(t, c.in(false, other), plan) == nil { // or it was pruned or shrunk
						t.Errorf("%s fails in mode %s, and not in mode %s", text, mode, other)
					}
				}
			}
			fixed := c.explore(t, true, "run")
			for _, f := range fixed.Failures {
				t.Error("the fix reports a failure:", f)
			}
			if fixed.Plans <= 10 {
				t.Fatalf("fixed.Plans = %d, want more than 10", fixed.Plans)
			}
		})
	}
}
