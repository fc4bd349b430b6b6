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
			explore := func(exhaustive bool) (found []string, report *simtest.Report) {
				report = simtest.Explore(t, func() simtest.World {
					w := c.world(fixed)
					w.Pairs, w.Exhaustive = -1, exhaustive
					return w
				})
				for _, f := range append(report.Failures, report.Advice...) {
					found = append(found, string(f.Severity)+" "+string(f.Rule)+" "+f.Problem)
				}
				slices.Sort(found)
				return found, report
			}
			all, whole := explore(true)
			some, part := explore(false)
			require.Equal(t, all, some, "%s fixed=%v", c.name, fixed)
			require.Zero(t, whole.Pruned)
			pruned += part.Pruned
			t.Logf("%s fixed=%v: %d plans, and %d left out", c.name, fixed, part.Plans, part.Pruned)
		}
	}
	require.Positive(t, pruned)
}
