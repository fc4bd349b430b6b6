package search

import (
	"slices"

	"github.com/setpoint-go/setpoint/simtest/internal/fault"
)

// shrink returns the failure with as few faults and steps of the user as possible, and each fault as early as possible. The
// result fails in the same way.
func (x *Explorer) shrink(f *Failure) *Failure {
	smaller := func(plan fault.Plan) bool {
		g, doubts := x.Try(plan)
		for _, d := range append(doubts, g) {
			if d != nil && d.sort() == f.sort() && d.Severity == f.Severity {
				f = d
				return true
			}
		}
		return false
	}
	for i := len(f.Plan) - 1; i >= 0 && len(f.Plan) > 1; i-- {
		smaller(slices.Delete(slices.Clone(f.Plan), i, i+1))
	}
	for step := len(f.fair.World.Steps); step > 0; step-- {
		if restarts := slices.ContainsFunc(f.Plan, func(g fault.Fault) bool { return g.Do == fault.Restart && g.Nth == step }); !restarts {
			smaller(slices.Insert(slices.Clone(f.Plan), 0, fault.Fault{Do: fault.Skip, Nth: step}))
		}
	}
	for i := range f.Plan {
		if g := f.Plan[i]; g.Do == fault.Gap || g.Do == fault.Restart || g.Do == fault.Skip {
			continue
		}
		for n := 1; n < f.Plan[i].Nth; n++ {
			plan := slices.Clone(f.Plan)
			plan[i].Nth = n
			if smaller(plan) {
				break
			}
		}
	}
	return f
}
