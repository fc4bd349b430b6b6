package classics_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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
			require.Equal(t, found(whole), found(part), "%s fixed=%v", c.name, fixed)
			require.Zero(t, whole.Pruned)
			pruned += part.Pruned
			t.Logf("%s fixed=%v: %d plans, and %d left out", c.name, fixed, part.Plans, part.Pruned)
		}
	}
	require.Positive(t, pruned)
}

// found returns what a report says, sorted.
func found(report *simtest.Report) (texts []string) {
	for _, f := range slices.Concat(report.Failures, report.Advice) {
		texts = append(texts, string(f.Severity)+" "+string(f.Rule)+" "+f.Problem)
	}
	slices.Sort(texts)
	return texts
}
