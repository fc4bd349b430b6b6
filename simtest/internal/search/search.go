package search

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/rule"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
)

// pairs is how many pairs are tried by default.
const pairs = 200

// Limits configure what an exploration tries in addition to every single fault.
type Limits struct {
	Pairs      int           // negative for none; defaults to 200
	Budget     time.Duration // of random plans
	Seed       uint64
	Exhaustive bool // also try the plans that cannot differ from others
}

// Progress is the progress of an exploration.
type Progress struct {
	Of    int       // plans to try; unknown for random plans
	Until time.Time // the end of random plans; zero before they begin
}

// Explorer tries the plans of one world.
type Explorer struct {
	// Tell, if set, is called before each plan.
	Tell func(Progress)

	play     func(fault.Plan) *sim.Run
	fair     map[string]*sim.Run // without faults, by the steps that the user leaves out
	plans    int
	last     *sim.Run // made by Try
	limits   Limits
	report   *Report
	seen     map[string]*Failure // by key
	silent   []fault.Fault       // faults that break no rule on their own
	progress Progress
}

// New returns an explorer. Play runs the world under a plan.
func New(play func(fault.Plan) *sim.Run) *Explorer {
	return &Explorer{play: play, fair: make(map[string]*sim.Run), report: &Report{}, seen: make(map[string]*Failure)}
}

// Play runs a plan.
func (x *Explorer) Play(plan fault.Plan) *sim.Run {
	x.plans++
	return x.play(plan)
}

// Without returns the run without the faults of a plan.
func (x *Explorer) Without(plan fault.Plan) *sim.Run {
	skips := plan.Skipped()
	name := skips.String()
	if x.fair[name] == nil {
		x.fair[name] = x.Play(skips)
	}
	return x.fair[name]
}

// Try runs a plan. It returns the failure, or nil, and what is doubtful; none of them is shrunk.
func (x *Explorer) Try(plan fault.Plan) (failed *Failure, doubts []*Failure) {
	fair := x.Without(plan)
	if x.last = fair; fair.Problem() != nil {
		return nil, nil // these steps do not work by themselves
	}
	r := x.Play(plan)
	x.last = r
	for _, p := range r.Advice() {
		if !fair.Doubts(p.Sort()) {
			doubts = append(doubts, failureOf(r, fair, &p, rule.Advisory))
		}
	}
	if p := r.Verdict(fair); p != nil {
		failed = failureOf(r, fair, p, p.Rule.Severity())
	}
	return failed, doubts
}

// Last returns the last run of [Explorer.Try].
func (x *Explorer) Last() *sim.Run { return x.last }

// Replay runs one plan. It returns the failure, or what is doubtful, or nil, and why faults of the plan have not happened.
func (x *Explorer) Replay(plan fault.Plan) (f *Failure, why []string) {
	if fair := x.Without(plan); fair.Problem() != nil {
		f = withoutFaults(fair, fair.Problem(), fair.Problem().Rule.Severity())
		f.tell()
		return f, nil
	}
	f, doubts := x.Try(plan)
	why, _ = unmet(x.last)
	if f == nil && len(doubts) > 0 {
		f = doubts[0]
	}
	if f != nil {
		f.tell()
	}
	return f, why
}

// Explore tries the plans of the corpus in a directory, every single fault at every position, pairs, and random plans. It is called
// once.
func (x *Explorer) Explore(dir string, limits Limits) *Report {
	x.limits = limits
	if x.limits.Pairs == 0 {
		x.limits.Pairs = pairs
	}
	fair := x.Without(nil)
	if f := x.unfit(fair); f != nil {
		x.report.Failing = 1
		x.report.Failures = []*Failure{f}
	} else {
		x.explore(fair, dir)
	}
	for _, f := range append(slices.Clone(x.report.Failures), x.report.Advice...) {
		f.tell()
	}
	x.report.Plans = x.plans
	return x.report
}

func (x *Explorer) explore(fair *sim.Run, dir string) {
	for _, p := range fair.Advice() {
		x.report.Advice = append(x.report.Advice, withoutFaults(fair, &p, rule.Advisory))
	}
	x.corpus(dir)
	all := Singles(fair)
	x.progress.Of += len(all) + max(x.limits.Pairs, 0)
	for _, s := range all {
		if s.Like != nil && !x.limits.Exhaustive {
			x.report.Pruned++
			x.progress.Of--
			continue
		}
		x.attempt(fault.Plan{s.Fault})
	}
	x.pairs()
	x.random()
}

// unfit returns why no plan can be tried, or nil.
func (x *Explorer) unfit(fair *sim.Run) *Failure {
	if p := fair.Problem(); p != nil {
		return withoutFaults(fair, p, p.Rule.Severity())
	}
	again := x.Play(nil)
	if again.Timeline.Order() == fair.Timeline.Order() {
		return nil
	}
	f := failureOf(fair, nil, &rule.Problem{
		Rule: rule.Unrepeated,
		Text: "two runs without faults differ, so no plan can be repeated: does a system range over a map, or use a random number?",
	}, rule.Bug)
	g := failureOf(again, nil, &f.Problem, rule.Bug)
	f.tell()
	g.tell()
	f.Timeline += "  and again:\n" + g.Timeline
	return f
}

// corpus tries the plans that failed before.
func (x *Explorer) corpus(dir string) {
	entries, err := corpus.Read(dir)
	if err != nil {
		x.report.Unfit = append(x.report.Unfit, err.Error())
	}
	x.progress.Of += len(entries)
	for _, e := range entries {
		plan, err := fault.Parse(e.Plan)
		if err != nil {
			x.report.Unfit = append(x.report.Unfit, fmt.Sprintf("%s: %v", e.File, err))
			continue
		}
		why, gone := unmet(x.attempt(plan))
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
func (x *Explorer) attempt(plan fault.Plan) *sim.Run {
	if x.Tell != nil {
		x.Tell(x.progress)
	}
	f, doubts := x.Try(plan)
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
	if x.seen[f.key()] == nil && !x.repeats(f) {
		p := rule.Problem{
			Rule: rule.Unrepeated, Text: "a second run of this plan differs: does a system range over a map, or use a random number?",
		}
		x.add(&x.report.Advice, failureOf(r, f.fair, &p, rule.Advisory))
	}
	x.add(&x.report.Failures, f)
	return r
}

// repeats reports whether a second run of a failing plan is the same.
func (x *Explorer) repeats(f *Failure) bool {
	again, _ := x.Try(f.Plan)
	return again != nil && again.sort() == f.sort() && again.run.Timeline.Order() == f.run.Timeline.Order()
}

// add adds a failure to a list. It shrinks the first of each sort, and counts the rest.
func (x *Explorer) add(list *[]*Failure, f *Failure) {
	if before := x.seen[f.key()]; before != nil {
		before.More = append(before.More, f.Plan)
		return
	}
	f = x.shrink(f)
	f.tell()
	x.seen[f.key()] = f
	*list = append(*list, f)
}

// pairs tries random pairs of the faults that break no rule on their own, each pair once.
func (x *Explorer) pairs() {
	n, random := max(x.limits.Pairs, 0), rand.New(rand.NewPCG(x.limits.Seed, 0))
	if all := len(x.silent) * (len(x.silent) - 1) / 2; all < n {
		x.progress.Of -= n - all
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
			x.attempt(fault.Plan{x.silent[pair[0]], x.silent[pair[1]]})
		}
	}
}

// random tries plans of three to five faults that break no rule on their own, as long as the budget lasts.
func (x *Explorer) random() {
	if x.limits.Budget <= 0 || len(x.silent) < 3 {
		return
	}
	random := rand.New(rand.NewPCG(x.limits.Seed, 1))
	x.progress.Until = time.Now().Add(x.limits.Budget)
	for time.Now().Before(x.progress.Until) {
		places := random.Perm(len(x.silent))[:min(3+random.IntN(3), len(x.silent))]
		slices.Sort(places)
		var plan fault.Plan
		for _, i := range places {
			plan = append(plan, x.silent[i])
		}
		x.attempt(plan)
	}
}
