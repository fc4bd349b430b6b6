package simtest

import (
	"slices"
)

// shrink returns the failure with as few faults and steps of the user as possible, and each fault as early as possible. The
// result fails in the same way.
func (x *explorer) shrink(f *Failure) *Failure {
	smaller := func(plan Plan) bool {
		g, doubts := x.try(plan)
		for _, d := range append(doubts, g) {
			if d != nil && d.sort == f.sort {
				f = d
				return true
			}
		}
		return false
	}
	for i := len(f.Plan) - 1; i >= 0 && len(f.Plan) > 1; i-- {
		smaller(slices.Delete(slices.Clone(f.Plan), i, i+1))
	}
	for step := len(f.fair.world.Steps); step > 0; step-- {
		if restarts := slices.ContainsFunc(f.Plan, func(g Fault) bool { return g.Do == faultRestart && g.Nth == step }); !restarts {
			smaller(slices.Insert(slices.Clone(f.Plan), 0, Fault{Do: faultSkip, Nth: step}))
		}
	}
	for i := range f.Plan {
		if g := f.Plan[i]; g.Do == faultGap || g.Do == faultRestart || g.Do == faultSkip {
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
