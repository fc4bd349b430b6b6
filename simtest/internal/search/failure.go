package search

import (
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/timeline"
)

// Report is the result of an exploration. Its fields are those of simtest.Report.
type Report struct {
	Plans, Pruned, Failing int
	Failures, Advice       []*Failure
	Unfit, Unmet           []string
}

// Failure is a plan under which a rule is broken.
type Failure struct {
	Problem  rule.Problem
	Severity rule.Severity
	Plan     fault.Plan
	More     []fault.Plan // other plans that failed in the same way, not shrunk
	Lines    []timeline.Line
	Timeline string

	run, fair *sim.Run // until the timeline is made
}

// failureOf returns the failure that reports a problem of a run. The fair run may be nil.
func failureOf(r, fair *sim.Run, p *rule.Problem, s rule.Severity) *Failure {
	return &Failure{Problem: *p, Severity: s, Plan: r.Plan, run: r, fair: fair}
}

// withoutFaults returns the failure that reports a problem of the run without faults.
func withoutFaults(fair *sim.Run, p *rule.Problem, s rule.Severity) *Failure {
	f := failureOf(fair, nil, p, s)
	f.Problem.Text = "without any fault: " + p.Text
	return f
}

func (f *Failure) sort() string { return f.Problem.Sort() }

// key is the same for failures that a report counts together.
func (f *Failure) key() string { return string(f.Severity) + " " + f.sort() }

// tell makes the timeline of the failure, and drops its runs.
func (f *Failure) tell() {
	if f.run == nil {
		return
	}
	var fair *timeline.Timeline
	if f.fair != nil {
		fair = f.fair.Timeline
	}
	f.Lines = timeline.Shorten(f.run.Timeline.Lines(fair))
	f.Timeline = timeline.Format(f.Lines)
	f.run, f.fair = nil, nil
}
