package classics_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/simtest"
)

// In run mode, the real Manager runs the systems, with the real election.
func TestBothModesAgree(t *testing.T) {
	for _, c := range classics {
		t.Run(c.name, func(t *testing.T) {
			world := func(fixed bool, mode string) func() simtest.World {
				return func() simtest.World {
					w := c.world(fixed)
					w.Mode, w.Pairs = mode, -1
					return w
				}
			}
			for _, modes := range [][2]string{{"step", "run"}, {"run", "step"}} {
				report := simtest.Explore(t, world(false, modes[0]))
				require.NotEmpty(t, report.Failures)
				for _, f := range report.Failures {
					for _, plan := range append(f.More, f.Plan) {
						if simtest.Replay(t, world(false, modes[1]), plan) == nil {
							t.Errorf("%s fails in mode %s, and not in mode %s\n%s", plan, modes[0], modes[1], f)
						}
					}
				}
			}
			fixed := simtest.Explore(t, world(true, "run"))
			for _, f := range fixed.Failures {
				t.Error("the fix reports a failure:", f)
			}
			require.Greater(t, fixed.Plans, 10)
		})
	}
}
