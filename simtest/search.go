package simtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// defaultPairs is how many pairs are tried by default.
const defaultPairs = 200

// patience is how much real time a plan may take before it is named.
const patience = 30 * time.Second

// explorer tries plans on a world: earlier failures, every single fault, pairs, and random plans. It shrinks the plans that fail.
type explorer struct {
	t        *testing.T
	world    func() World
	play     func(Plan) *run
	decoded  decodedValues // of all runs
	patience time.Duration // how much real time a plan may take before warn names it
	warn     func(text string)

	fair     map[string]*run // without faults, by the steps that the user leaves out
	last     *run            // made by try
	report   Report
	found    map[string]*Failure // by sort
	silent   []Fault             // faults that break no rule on their own
	progress progress
}

func newExplorer(t *testing.T, world func() World) *explorer {
	x := &explorer{
		t: t, world: world, fair: make(map[string]*run), found: make(map[string]*Failure), patience: patience,
		warn: func(text string) { fmt.Fprint(os.Stderr, text) }, // which also shows it if the test never ends
	}
	x.play = x.playWorld
	return x
}

// playWorld runs a plan in a bubble.
func (x *explorer) playWorld(plan Plan) *run {
	defer time.AfterFunc(x.patience, func() { x.tooLong(plan) }).Stop()
	var played atomic.Pointer[run]
	func() {
		defer func() {
			if v := recover(); v != nil { // all goroutines of the run are blocked
				if played.Load() == nil {
					played.Store(newRun(World{}, plan, &x.decoded))
				}
				played.Load().fail(ruleWorld, "the run hangs: %v", v)
			}
		}()
		synctest.Test(x.t, func(*testing.T) {
			done := make(chan struct{})
			// A goroutine of its own, because a function of the world may end it. Waited for.
			go func() {
				defer close(done)
				var w World
				_, ok := protect("the function that makes the world", func() error { w = x.world(); return nil }, func(p problem) {
					r := newRun(World{}, plan, &x.decoded)
					r.problem = &p
					played.Store(r)
				})
				if !ok {
					return
				}
				r := newRun(w, plan, &x.decoded)
				played.Store(r)
				r.play(strings.ToLower(cmp.Or(*modeFlag, w.Mode)))
			}()
			<-done
		})
	}()
	return played.Load()
}

// tooLong names a plan that has not ended. Nothing can end a loop in which no call is made.
func (x *explorer) tooLong(plan Plan) {
	name := "without faults"
	if len(plan) > 0 {
		name = fmt.Sprintf("of -simtest.plan='%s'", plan)
	}
	x.warn(fmt.Sprintf("simtest: %s: the run %s has not ended after %v: does a reconcile or a part loop without a call of the Env?\n",
		x.t.Name(), name, x.patience))
}

// run runs a plan.
func (x *explorer) run(plan Plan) *run {
	x.report.Plans++
	return x.play(plan)
}

// withoutFaults returns the run without the faults of a plan.
func (x *explorer) withoutFaults(plan Plan) *run {
	skips := plan.skipped()
	name := skips.String()
	if x.fair[name] == nil {
		x.fair[name] = x.run(skips)
	}
	return x.fair[name]
}

// try runs a plan. It returns the failure, or nil, and what is doubtful; none of them is shrunk.
func (x *explorer) try(plan Plan) (failed *Failure, doubts []*Failure) {
	fair := x.withoutFaults(plan)
	if x.last = fair; fair.problem != nil {
		return nil, nil // these steps do not work by themselves
	}
	r := x.run(plan)
	x.last = r
	seen := make(map[string]bool)
	for _, p := range r.advice {
		if fair.advises(p.sort()) || seen[p.sort()] || p.creates != "" && fair.db.hasHad(p.creates) {
			continue
		}
		seen[p.sort()] = true
		doubts = append(doubts, failureOf(r, fair, p, Advisory))
	}
	if p := r.problemBeside(fair); p != nil {
		failed = failureOf(r, fair, *p, p.rule.Severity())
	}
	return failed, doubts
}

// replay runs one plan. It returns the failure, or what is doubtful, or nil, and why faults of the plan have not happened.
func (x *explorer) replay(plan Plan) (f *Failure, why []string) {
	if fair := x.withoutFaults(plan); fair.problem != nil {
		f = failureWithoutFaults(fair, *fair.problem, fair.problem.rule.Severity())
	} else {
		var doubts []*Failure
		f, doubts = x.try(plan)
		why, _ = unmet(x.last)
		if f == nil && len(doubts) > 0 {
			f = doubts[0]
		}
	}
	if f != nil {
		f.writeTimeline()
	}
	return f, why
}

// explore tries the plans of the corpus in a directory, every single fault at every position, pairs, and random plans. The same seed tries
// the same plans in the same order; only the number of random plans depends on time. It is called once.
func (x *explorer) explore(dir string) *Report {
	fair := x.withoutFaults(nil)
	budget := durationOf(x.t, "budget", *budgetFlag, fair.world.Budget)
	if f := x.unfit(fair); f != nil {
		x.report.Failing = 1
		x.report.Failures = []*Failure{f}
	} else {
		for _, p := range fair.advice {
			x.report.Advice = append(x.report.Advice, failureWithoutFaults(fair, p, Advisory))
		}
		x.corpus(dir)
		pairs := max(cmp.Or(fair.world.Pairs, defaultPairs), 0)
		x.progress.of += pairs
		x.singles(fair)
		x.pairs(pairs, fair.world.Seed)
		x.random(budget, fair.world.Seed)
	}
	for _, f := range append(slices.Clone(x.report.Failures), x.report.Advice...) {
		f.writeTimeline()
	}
	return &x.report
}

// failureWithoutFaults returns the failure that reports a problem of the run without faults.
func failureWithoutFaults(fair *run, p problem, severity Severity) *Failure {
	f := failureOf(fair, nil, p, severity)
	f.Problem = "without any fault: " + p.text
	return f
}

// unfit returns why no plan can be tried, or nil.
func (x *explorer) unfit(fair *run) *Failure {
	if p := fair.problem; p != nil {
		return failureWithoutFaults(fair, *p, p.rule.Severity())
	}
	again := x.run(nil)
	if again.timeline.order() == fair.timeline.order() {
		return nil
	}
	p := problem{
		rule: ruleNondeterminism,
		text: "two runs without faults differ, so no plan can be repeated: does a system range over a map, or use a random number?",
	}
	f, g := failureOf(fair, nil, p, Bug), failureOf(again, nil, p, Bug)
	f.writeTimeline()
	g.writeTimeline()
	f.Timeline += "  and again:\n" + g.Timeline
	return f
}

// corpus tries the plans that failed before.
func (x *explorer) corpus(dir string) {
	entries, err := readCorpus(dir)
	if err != nil {
		x.report.Unfit = append(x.report.Unfit, err.Error())
	}
	x.progress.of += len(entries)
	for _, e := range entries {
		plan, err := ParsePlan(e.plan)
		if err != nil {
			x.report.Unfit = append(x.report.Unfit, fmt.Sprintf("%s: %v", e.file, err))
			continue
		}
		why, unknown := unmet(x.attempt(plan))
		for _, text := range why {
			text = fmt.Sprintf("%s: the plan does not apply anymore: %s", e.file, text)
			if unknown {
				x.report.Unfit = append(x.report.Unfit, text+". Correct the file, or delete it")
			} else {
				x.report.Unmet = append(x.report.Unmet, text)
			}
		}
	}
}

// singles tries each fault that can happen to the run without faults.
func (x *explorer) singles(fair *run) {
	all := singles(fair)
	x.progress.of += len(all)
	for _, s := range all {
		if s.like != nil && !fair.world.Exhaustive {
			x.report.Pruned++
			x.progress.of--
			continue
		}
		x.attempt(Plan{s.Fault})
	}
}

// attempt tries a plan, and adds the result to the report. It returns the run.
func (x *explorer) attempt(plan Plan) *run {
	x.progress.step()
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
	if x.found[f.sort] == nil && !x.repeats(f) {
		x.add(&x.report.Advice, failureOf(r, f.fair, problem{
			rule: ruleNondeterminism, text: "a second run of this plan differs: does a system range over a map, or use a random number?",
		}, Advisory))
	}
	x.add(&x.report.Failures, f)
	return r
}

// repeats reports whether a second run of a failing plan is the same.
func (x *explorer) repeats(f *Failure) bool {
	again, _ := x.try(f.Plan)
	return again != nil && again.sort == f.sort && again.run.timeline.order() == f.run.timeline.order()
}

// add adds a failure to a list. It shrinks the first of each sort, and counts the rest.
func (x *explorer) add(list *[]*Failure, f *Failure) {
	if before := x.found[f.sort]; before != nil {
		before.More = append(before.More, f.Plan)
		return
	}
	f = x.shrink(f)
	f.writeTimeline()
	x.found[f.sort] = f
	*list = append(*list, f)
}

// pairs tries random pairs of the faults that break no rule on their own, each pair once.
func (x *explorer) pairs(n int, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0))
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
			x.attemptFair(Plan{x.silent[pair[0]], x.silent[pair[1]]})
		}
	}
}

// attemptFair is attempt, unless the plan asks for what no program can survive: a call of a process that was replaced arrives in a step of the user
// that the call does not know about, and there is no lease by which the receiver could refuse it. Usually the next step comes after the call, and
// the caches of the process have the last step. But early brings a step forward, and travel and gap make the caches lack one.
func (x *explorer) attemptFair(plan Plan) {
	if slices.ContainsFunc(plan, func(late Fault) bool {
		return (late.Do == faultLate || late.Do == faultZombie) && !x.leased(late.System) && slices.ContainsFunc(plan, func(f Fault) bool {
			return f.Do == faultEarly || (f.Do == faultTravel || f.Do == faultGap) && f.System == late.System
		})
	}) {
		x.report.Pruned++
		return
	}
	x.attempt(plan)
}

// leased reports whether a system has a lease.
func (x *explorer) leased(system string) bool {
	s := x.withoutFaults(nil).program(system)
	return s != nil && s.Lease != ""
}

// random tries plans of three to five faults that break no rule on their own, as long as the budget lasts.
func (x *explorer) random(budget time.Duration, seed uint64) {
	if budget <= 0 || len(x.silent) < 3 {
		return
	}
	random := rand.New(rand.NewPCG(seed, 1))
	x.progress.until = time.Now().Add(budget)
	for time.Now().Before(x.progress.until) {
		places := random.Perm(len(x.silent))[:min(3+random.IntN(3), len(x.silent))]
		slices.Sort(places)
		var plan Plan
		for _, i := range places {
			plan = append(plan, x.silent[i])
		}
		x.attemptFair(plan)
	}
}
