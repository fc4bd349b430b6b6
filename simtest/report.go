package simtest

import (
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/search"
	"github.com/setpoint-go/setpoint/simtest/internal/timeline"
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
	Plan     Plan   // shrunk, with the steps that the user leaves out; empty if the run without faults failed
	Problem  string // in a sentence
	Timeline string // what happened, one line each; lines of "state" say how the objects differ from those of the run without faults
	More     []Plan // other plans that failed in the same way, not shrunk

	lines []timeline.Line
}

// String returns the problem, what it means, the timeline, and how to run the plan again.
func (f *Failure) String() string {
	text := fmt.Sprintf("simtest: %s\n  %s %s: %s\n%s", f.Problem, f.Severity, f.Rule, f.Rule.Means(), f.Timeline)
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

// reportOf returns the report of an exploration.
func reportOf(r *search.Report, elapsed time.Duration) *Report {
	report := &Report{Plans: r.Plans, Pruned: r.Pruned, Failing: r.Failing, Unfit: r.Unfit, Unmet: r.Unmet, Elapsed: elapsed}
	for _, f := range r.Failures {
		report.Failures = append(report.Failures, failureOf(f))
	}
	for _, f := range r.Advice {
		report.Advice = append(report.Advice, failureOf(f))
	}
	return report
}

func failureOf(f *search.Failure) *Failure {
	g := &Failure{
		Rule: Rule(f.Problem.Rule), Severity: Severity(f.Severity), Plan: planOf(f.Plan), Problem: f.Problem.Text,
		Timeline: f.Timeline, lines: f.Lines,
	}
	for _, plan := range f.More {
		g.More = append(g.More, planOf(plan))
	}
	return g
}
