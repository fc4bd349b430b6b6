package simtest

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// The flags are package variables because go test reads flags before any test runs.
var (
	planFlag   = flag.String("simtest.plan", "", "run this plan of simtest alone, such as 'crash-after(sites update site/a#1)'")
	modeFlag   = flag.String("simtest.mode", "", `how simtest drives systems: "step" or "run"; the default is that of each world`)
	budgetFlag = flag.String("simtest.budget", "",
		"how long simtest tries random plans after all others, such as 1m; replaces World.Budget")
)

// Run explores the world, and fails t with the timeline of each sort of failure. The function makes the world. It is called for every run,
// so that state outside the stores, such as a fake of a cloud, is new in each. An [Advisory] failure is logged in one line, which go test
// -v shows.
//
// Run writes the plan of each sort of failure to a file in testdata/simtest/<name of the test>, and tries the plans in that directory first.
// Keep these files with the code. The text of a plan is also that of a file; lines that begin with "#" are comments. If the flag
// -simtest.plan is set, Run runs only that plan. The flag -simtest.html=DIRECTORY draws the failures of each test on a page, and
// -simtest.progress=2s reports the progress every two seconds.
func Run(t *testing.T, world func() World) {
	t.Helper()
	plan, err := ParsePlan(*planFlag)
	if err != nil {
		t.Fatal(err)
	}
	if plan != nil {
		f, unmet := replay(t, world, plan)
		for _, why := range unmet {
			t.Errorf("simtest: the plan does not apply: %s", why)
		}
		if f != nil {
			draw(t, []*Failure{f})
		}
		if f != nil && f.Severity == Bug {
			t.Error(f)
		} else if f != nil {
			t.Log(f)
		}
		return
	}
	report := Explore(t, world)
	for _, f := range report.Failures {
		t.Error(f)
		keep(t, f)
	}
	draw(t, append(slices.Clone(report.Failures), report.Advice...))
	for _, text := range report.Unfit {
		t.Errorf("simtest: %s", text)
	}
	for _, text := range report.Unmet {
		t.Logf("simtest: %s", text)
	}
	for _, f := range report.Advice {
		t.Log(f.brief())
	}
	t.Logf("simtest: %d of %d plans failed, in %v", report.Failing, report.Plans, report.Elapsed.Round(time.Millisecond))
}

// keep writes the plan of a failure to the corpus of the test.
func keep(t *testing.T, f *Failure) {
	t.Helper()
	if len(f.Plan) == 0 {
		return
	}
	file, err := writeCorpus(corpusDir(t.Name()), f.Plan.String(), fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Problem))
	switch {
	case err != nil:
		t.Log(err)
	case file != "":
		t.Logf("simtest: the plan is in %s, and will be tried first", file)
	}
}

// Explore tries the plans in testdata/simtest/<name of the test>, every single fault at every position, pairs of faults, and random plans
// for as long as World.Budget. It returns the result. It fails t only if a flag cannot be read.
//
// Until Explore returns, slog.Default discards its records: hundreds of runs would fill the log. During [Replay], it writes text to the
// writer of package log, and leaves out only the crashes of processes.
func Explore(t *testing.T, world func() World) *Report {
	t.Helper()
	began := time.Now()
	defer silence()()
	x := newExplorer(t, world)
	x.progress = newProgress(t)
	report := x.explore(corpusDir(t.Name()))
	report.Elapsed = time.Since(began)
	return report
}

// Replay runs one plan, and returns the failure. If the plan breaks no rule but something is doubtful, Replay returns that as a failure of
// severity [Advisory]. Replay returns nil if there is neither. A plan that [ParsePlan] would not return fails t.
func Replay(t *testing.T, world func() World, plan Plan) *Failure {
	t.Helper()
	f, _ := replay(t, world, plan)
	return f
}

// replay is Replay, and also returns why faults of the plan have not happened.
func replay(t *testing.T, world func() World, plan Plan) (f *Failure, unmet []string) {
	t.Helper()
	faults, err := ParsePlan(plan.String())
	if err != nil {
		t.Fatal(err)
	}
	defer withoutCrashes()()
	return newExplorer(t, world).replay(faults)
}
