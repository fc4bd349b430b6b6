package classics_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/simtest"
)

// Plans that are pruned because they are indistinguishable from others do not change the findings.
func TestPruningDoesNotChangeVerdicts(t *testing.T) {
	pruned := 0
	for _, c := range classics {
		for _, fixed := range []bool{false, true} {
			whole, part := simtest.Explore(t, func() simtest.World {
				w := c.in(fixed, "step")()
				w.Exhaustive = true
				return w
			}), c.explore(t, fixed, "step")
			if diff := cmp.Diff(found(whole), found(part)); diff != "" {
				t.Fatalf("%s fixed=%v: found(part) mismatch (-want +got):\n%s", c.name, fixed, diff)
			}
			if whole.Pruned != 0 {
				t.Fatalf("whole.Pruned = %d, want 0", whole.Pruned)
			}
			pruned += part.Pruned
			t.Logf("%s fixed=%v: %d plans, and %d left out", c.name, fixed, part.Plans, part.Pruned)
		}
	}
	if pruned <= 0 {
		t.Fatalf("pruned = %d, want a positive number", pruned)
	}
}

// found returns what a report says, sorted.
func found(report *simtest.Report) (texts []string) {
	for _, f := range slices.Concat(report.Failures, report.Advice) {
		texts = append(texts, string(f.Severity)+" "+string(f.Rule)+" "+f.Problem)
	}
	slices.Sort(texts)
	return texts
}
