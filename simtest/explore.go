package simtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
)

// planFlag is a package variable because go test reads flags before any test runs.
var planFlag = flag.String("simtest.plan", "", "run this plan of simtest alone, such as 'crash-after(sites update site/a#1)'")

// planOfFlag returns the plan of the flag, or nil if it is not set.
func planOfFlag() (Plan, error) {
	if *planFlag == "" {
		return nil, nil
	}
	return ParsePlan(*planFlag)
}

// explorer tries the plans of one world.
type explorer struct {
	t     *testing.T
	world func() World
	fair  map[string]*run // without faults, by the steps that the user leaves out
	plans int

	report   *Report
	seen     map[string]*Failure // by sort
	last     *run                // that try made
	silent   []Fault             // that fail alone under no rule
	progress *progress
}

func newExplorer(t *testing.T, world func() World) *explorer {
	return &explorer{t: t, world: world, fair: make(map[string]*run), report: &Report{}, seen: make(map[string]*Failure), progress: newProgress(t)}
}

// play runs a plan in a bubble.
func (x *explorer) play(plan Plan) (r *run) {
	x.plans++
	synctest.Test(x.t, func(*testing.T) { r = play(x.world(), plan) })
	return r
}

// without returns the run without the faults of a plan.
func (x *explorer) without(plan Plan) *run {
	_, skips := plan.split()
	name := skips.String()
	if x.fair[name] == nil {
		x.fair[name] = x.play(skips)
	}
	return x.fair[name]
}

// try runs a plan. It returns the failure, or nil, and then what is doubtful; none of them is shrunk.
func (x *explorer) try(plan Plan) (failed *Failure, doubts []*Failure) {
	fair := x.without(plan)
	if x.last = fair; fair.problem != nil {
		return nil, nil // these steps do not work by themselves
	}
	r := x.play(plan)
	x.last = r
	for i := range r.advice {
		if p := &r.advice[i]; !fair.doubts(p.sort()) {
			doubts = append(doubts, r.failure(fair, p, Advisory))
		}
	}
	if p := verdict(r, fair); p != nil {
		failed = r.failure(fair, p, p.rule.Severity())
	}
	return failed, doubts
}

// doubts reports whether the advice of the run has this sort.
func (r *run) doubts(sort string) bool {
	return slices.ContainsFunc(r.advice, func(p problem) bool { return p.sort() == sort })
}

// failure returns what a problem of the run is to a report. The fair run may be nil.
func (r *run) failure(fair *run, p *problem, s Severity) *Failure {
	return &Failure{Rule: p.rule, Severity: s, Plan: r.plan, Problem: p.text, run: r, fair: fair, sort: p.sort()}
}

// settle makes the timelines of the failures, and forgets their runs.
func (x *explorer) settle() {
	for _, f := range append(slices.Clone(x.report.Failures), x.report.Advice...) {
		f.tell()
	}
	x.report.Plans = x.plans
}

// tell makes the timeline of the failure.
func (f *Failure) tell() {
	if f.run == nil {
		return
	}
	f.lines = f.run.lines(f.fair)
	f.Timeline = formatTimed(f.lines)
	f.run, f.fair = nil, nil
}

// Explore tries every single fault at every position, and then pairs of faults, and returns what came of it. It does not fail t.
//
// Until it returns, slog.Default discards: hundreds of runs would fill the log. During [Replay], it writes text to the writer of
// package log, and leaves out only the crashes of processes.
func Explore(t *testing.T, world func() World) *Report {
	t.Helper()
	began := time.Now()
	defer silence()()
	x := newExplorer(t, world)
	defer func() {
		x.settle()
		x.report.Elapsed = time.Since(began)
	}()
	fair := x.without(nil)
	if f := x.unfit(fair); f != nil {
		x.report.Failing = 1
		x.report.Failures = []*Failure{f}
		return x.report
	}
	for i := range fair.advice {
		f := fair.failure(nil, &fair.advice[i], Advisory)
		f.Problem = "without any fault: " + f.Problem
		x.report.Advice = append(x.report.Advice, f)
	}
	x.corpus()
	all := singles(fair)
	x.progress.of += len(all) + x.pairsOf(fair)
	for _, c := range all {
		if c.like != nil && !fair.world.Exhaustive {
			x.report.Pruned++
			x.progress.of--
			continue
		}
		x.attempt(Plan{c.Fault})
	}
	x.pairs(fair)
	x.random(fair)
	return x.report
}

// unfit returns why no plan can be tried, or nil.
func (x *explorer) unfit(fair *run) *Failure {
	if p := fair.problem; p != nil {
		f := fair.failure(nil, p, p.rule.Severity())
		f.Problem = "without any fault: " + p.text
		return f
	}
	if again := x.play(nil); again.order() != fair.order() {
		f := fair.failure(nil, &problem{rule: ruleUnrepeated}, Bug)
		f.Problem = "two runs without faults differ, so no plan can be repeated: does a system range over a map, or use a random number?"
		f.tell()
		f.Timeline += "  and again:\n" + again.timeline(nil)
		return f
	}
	return nil
}

// corpus tries the plans that once failed.
func (x *explorer) corpus() {
	entries, err := corpus.Read(corpus.Dir(x.t.Name()))
	if err != nil {
		x.report.Unfit = append(x.report.Unfit, err.Error())
	}
	x.progress.of += len(entries)
	for _, e := range entries {
		plan, err := ParsePlan(e.Plan)
		if err != nil {
			x.report.Unfit = append(x.report.Unfit, fmt.Sprintf("%s: %v", e.File, err))
			continue
		}
		why, gone := x.attempt(plan).unmet()
		for _, text := range why {
			text = fmt.Sprintf("%s: the plan does not apply anymore: %s", e.File, text)
			if gone {
				x.report.Unfit = append(x.report.Unfit, text+". Correct the file, or delete it")
			} else {
				x.report.Unmet = append(x.report.Unmet, text)
			}
		}
	}
}

// attempt tries a plan, and adds the result to the report. It returns the run.
func (x *explorer) attempt(plan Plan) *run {
	x.progress.step(x.t.Name(), time.Now())
	f, doubts := x.try(plan)
	for _, d := range doubts {
		x.add(&x.report.Advice, d)
	}
	if f == nil {
		if len(plan) == 1 {
			x.silent = append(x.silent, plan[0])
		}
		return x.last
	}
	r := x.last
	x.report.Failing++
	first := f.run.order()
	if again, _ := x.try(plan); again == nil || again.sort != f.sort || again.run.order() != first {
		p := problem{rule: ruleUnrepeated, text: "a second run of this plan differs: does a system range over a map, or use a random number?"}
		x.add(&x.report.Advice, f.run.failure(f.fair, &p, Advisory))
	}
	x.add(&x.report.Failures, f)
	return r
}

// add adds a failure to a list. It shrinks the first of each sort, and counts the others.
func (x *explorer) add(list *[]*Failure, f *Failure) {
	key := string(f.Severity) + " " + f.sort
	if before := x.seen[key]; before != nil {
		before.More = append(before.More, f.Plan)
		return
	}
	x.seen[key] = x.shrink(f)
	x.seen[key].tell()
	*list = append(*list, x.seen[key])
}

// pairsOf returns how many pairs are to be tried.
func (x *explorer) pairsOf(fair *run) int {
	n := fair.world.Pairs
	if n == 0 {
		n = pairs
	}
	return max(n, 0)
}

// pairs tries random pairs of the faults that fail under no rule alone, each pair once.
func (x *explorer) pairs(fair *run) {
	n, random := x.pairsOf(fair), rand.New(rand.NewPCG(fair.world.Seed, 0))
	if all := len(x.silent) * (len(x.silent) - 1) / 2; all < n {
		x.progress.of -= n - all
		n = all
	}
	tried := make(map[[2]int]bool, n)
	for len(tried) < n {
		i, j := random.IntN(len(x.silent)), random.IntN(len(x.silent)-1)
		if j >= i {
			j++
		}
		pair := [2]int{min(i, j), max(i, j)}
		if !tried[pair] {
			tried[pair] = true
			x.attempt(Plan{x.silent[pair[0]], x.silent[pair[1]]})
		}
	}
}

// random tries plans of three to five faults that fail under no rule alone, as long as the budget lasts.
func (x *explorer) random(fair *run) {
	budget := durationOf(x.t, "budget", *budgetFlag, fair.world.Budget)
	if budget <= 0 || len(x.silent) < 3 {
		return
	}
	random := rand.New(rand.NewPCG(fair.world.Seed, 1))
	x.progress.until = time.Now().Add(budget)
	for time.Now().Before(x.progress.until) {
		places := random.Perm(len(x.silent))[:min(3+random.IntN(3), len(x.silent))]
		slices.Sort(places)
		var plan Plan
		for _, i := range places {
			plan = append(plan, x.silent[i])
		}
		x.attempt(plan)
	}
}

// Replay runs one plan, and returns the failure. If it breaks no rule but something is doubtful, that is the failure, and its
// severity is [Advisory]. Replay returns nil if all is well.
func Replay(t *testing.T, world func() World, plan Plan) *Failure {
	t.Helper()
	f, _ := replay(t, world, plan)
	return f
}

// replay also returns why faults of the plan have not happened.
func replay(t *testing.T, world func() World, plan Plan) (f *Failure, unmet []string) {
	t.Helper()
	defer withoutCrashes()()
	x := newExplorer(t, world)
	if fair := x.without(plan); fair.problem != nil {
		f = fair.failure(nil, fair.problem, fair.problem.rule.Severity())
		f.Problem = "without any fault: " + f.Problem
		f.tell()
		return f, nil
	}
	f, doubts := x.try(plan)
	unmet, _ = x.last.unmet()
	if f == nil && len(doubts) > 0 {
		f = doubts[0]
	}
	if f != nil {
		f.tell()
	}
	return f, unmet
}

// shrink returns the failure with as few faults and steps of the user as possible, and each fault as early as possible. The
// result fails in the same way.
func (x *explorer) shrink(f *Failure) *Failure {
	smaller := func(plan Plan) bool {
		g, doubts := x.try(plan)
		for _, d := range append(doubts, g) {
			if d != nil && d.sort == f.sort && d.Severity == f.Severity {
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
		if restarts := slices.ContainsFunc(f.Plan, func(g Fault) bool { return g.Do == Restart && g.Nth == step }); !restarts {
			smaller(slices.Insert(slices.Clone(f.Plan), 0, Fault{Do: Skip, Nth: step}))
		}
	}
	for i := range f.Plan {
		if g := f.Plan[i]; g.Do == Gap || g.Do == Restart || g.Do == Skip {
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
