package simtest

import (
	"fmt"
	"strings"
	"time"
)

// Report is the result of an exploration.
type Report struct {
	Plans    int           // plans that were run, including those of shrinking
	Pruned   int           // plans of one fault that were not run, because they cannot differ from others
	Failing  int           // plans that failed
	Failures []*Failure    // failures that fail the test: the first of each sort, shrunk
	Advice   []*Failure    // failures that do not: the first of each sort, shrunk
	Unfit    []string      // files of testdata/simtest whose plan cannot be read or has a name that is not in the world, and why
	Unmet    []string      // files of testdata/simtest whose plan has a fault that does not happen anymore, and why
	Elapsed  time.Duration // real time
}

// Failure is a plan under which a rule is broken.
//
// Of each sort of failure, the kit reports one plan and counts the others. It runs that plan twice, and says so if the runs differ. It
// shrinks the plan for as long as it fails in the same way: to fewer faults, fewer steps of the user, and earlier faults.
//
// Faults end. If a rule is broken only while a cache lags for more than 100 reconciles or a minute, the failure is an advisory. The
// same holds if it is broken only while controllers have not begun for more than 100 reconciles.
type Failure struct {
	Rule     Rule
	Severity Severity
	Plan     Plan     // shrunk, with the steps that the user leaves out; empty if the run without faults failed
	Problem  string   // in a sentence
	Stack    []string // where a function of the world panicked, the innermost first
	Timeline string   // what happened, one line each; lines of "state" say how the objects differ from those of the run without faults
	More     []Plan   // other plans that failed in the same way, not shrunk

	sort      string // the same for failures that a report counts together
	lines     []line
	run, fair *run // until the timeline is made
}

// failureOf returns the failure that reports a problem of a run. The fair run may be nil.
func failureOf(r, fair *run, p problem, severity Severity) *Failure {
	return &Failure{
		Rule: p.rule, Severity: severity, Plan: r.plan, Problem: p.text, Stack: p.stack, sort: string(severity) + " " + p.sort(), run: r, fair: fair,
	}
}

// writeTimeline makes the timeline of the failure, and drops its runs.
func (f *Failure) writeTimeline() {
	if f.run == nil {
		return
	}
	var fair *timeline
	if f.fair != nil {
		fair = f.fair.timeline
	}
	f.lines = shorten(fold(f.run.timeline.lines(fair)))
	f.Timeline = formatLines(f.lines)
	f.run, f.fair = nil, nil
}

// String returns the problem, what it means, the timeline, and how to run the plan again.
func (f *Failure) String() string {
	text := fmt.Sprintf("simtest: %s\n  %s %s: %s\n%s", f.Problem, f.Severity, f.Rule, f.Rule.Means(), f.Timeline)
	if len(f.Stack) > 0 {
		text += "  at " + strings.Join(f.Stack, "\n     ") + "\n"
	}
	if len(f.Plan) > 0 {
		text += fmt.Sprintf("  run again: -simtest.plan='%s'\n", f.Plan)
	}
	if n := len(f.More); n > 0 {
		text += fmt.Sprintf("  %d more plans fail in the same way, such as %s\n", n, f.More[n-1])
	}
	return text
}

// brief returns an advisory in one line.
func (f *Failure) brief() string {
	text := fmt.Sprintf("simtest: %s %s: %s", f.Severity, f.Rule, f.Problem)
	if len(f.Plan) > 0 {
		text += fmt.Sprintf(" (%d plans, such as -simtest.plan='%s')", 1+len(f.More), f.Plan)
	}
	return text
}
