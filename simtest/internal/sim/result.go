package sim

import (
	"slices"

	"github.com/setpoint-go/setpoint/simtest/internal/judge"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
)

// checkViews checks whether the kit drives the source of each cache.
func (r *Run) checkViews() {
	for p := range r.Processes() {
		for _, v := range p.Views {
			if v.Kind() == "" {
				r.Fail(rule.World, "a cache of %s has not listed: is its source a store of the Env?", p.Name)
			}
		}
	}
}

// judge examines the state at the end.
func (r *Run) judge() {
	if r.Failed() {
		return
	}
	if r.World.Goal != nil {
		if err := r.World.Goal(r.view); err != nil {
			r.Fail(rule.Goal, "at the end: %v", err)
		}
	}
	r.End = judge.Look(r.DB, r.World.Same)
}

// The following are for a run that is over.

// Problem returns the first broken rule, or nil.
func (r *Run) Problem() *rule.Problem { return r.problem }

// Verdict returns the rule that is broken in comparison with the run without faults, or nil.
func (r *Run) Verdict(fair *Run) *rule.Problem {
	if r.problem != nil {
		return r.problem
	}
	return r.End.Beside(fair.End, r.World.Goal != nil)
}

// Advice returns the doubtful actions, one of each sort.
func (r *Run) Advice() []rule.Problem { return r.advice }

// Doubts reports whether there was a doubtful action of this sort.
func (r *Run) Doubts(sort string) bool {
	return slices.ContainsFunc(r.advice, func(p rule.Problem) bool { return p.Sort() == sort })
}

// Positions returns where the systems have written and read.
func (r *Run) Positions() []Position { return r.positions }

// Hit reports whether the fault at an index of the plan has happened.
func (r *Run) Hit(i int) bool { return r.hits[i] }

// Changes returns how often an object was committed.
func (r *Run) Changes(object string) int { return r.events[object] }
