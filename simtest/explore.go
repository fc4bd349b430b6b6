package simtest

import (
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/informer"
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
	fair  map[string]*run // without faults, by the steps of the user
	plans int
}

// allSteps returns the numbers of all steps of the user.
func (x *explorer) allSteps() []int {
	steps := make([]int, len(x.world().Steps))
	for i := range steps {
		steps[i] = i
	}
	return steps
}

// play runs a plan in a bubble.
func (x *explorer) play(plan Plan, steps []int) (r *run) {
	x.plans++
	synctest.Test(x.t, func(*testing.T) { r = play(x.world(), plan, steps) })
	return r
}

// without returns the run without faults.
func (x *explorer) without(steps []int) *run {
	name := fmt.Sprint(steps)
	if x.fair[name] == nil {
		x.fair[name] = x.play(nil, steps)
	}
	return x.fair[name]
}

// try returns a failure, not shrunk, or nil.
func (x *explorer) try(plan Plan, steps []int) *Failure {
	fair := x.without(steps)
	if fair.problem != nil {
		return nil // these steps do not work by themselves
	}
	r := x.play(plan, steps)
	p := verdict(r, fair)
	if p == nil {
		return nil
	}
	return &Failure{Plan: plan, Steps: steps, Problem: p.text, Timeline: r.timeline(), sort: p.sort}
}

// Explore tries every single fault at every position, and then pairs of faults, and returns what came of it. It does not fail t.
//
// Until it returns, slog.Default discards: hundreds of runs would log what is in no timeline that anybody reads. [Replay] leaves the
// log alone.
func Explore(t *testing.T, world func() World) *Report {
	t.Helper()
	began := time.Now()
	defer silence()()
	x := &explorer{t: t, world: world, fair: make(map[string]*run)}
	steps := x.allSteps()
	report := &Report{}
	defer func() { report.Plans, report.Elapsed = x.plans, time.Since(began) }()

	fair := x.without(steps)
	if fair.problem != nil {
		report.Failing = 1
		report.Failures = []*Failure{{Problem: "without any fault: " + fair.problem.text, Timeline: fair.timeline(), Steps: steps}}
		return report
	}
	if again := x.play(nil, steps); again.order() != fair.order() {
		report.Failing = 1
		report.Failures = []*Failure{{
			Problem: "two runs without faults differ, so no plan can be repeated: " +
				"does a system range over a map, or use a random number?",
			Timeline: fair.timeline() + "  and again:\n" + again.timeline(), Steps: steps,
		}}
		return report
	}
	var silent []Fault
	seen := make(map[string]*Failure)
	attempt := func(plan Plan) {
		f := x.try(plan, steps)
		if f == nil {
			if len(plan) == 1 {
				silent = append(silent, plan[0])
			}
			return
		}
		report.Failing++
		if before := seen[f.sort]; before != nil {
			before.More = append(before.More, plan)
			return
		}
		seen[f.sort] = x.shrink(f)
		report.Failures = append(report.Failures, seen[f.sort])
	}
	for _, f := range singles(fair, len(steps)) {
		attempt(Plan{f})
	}
	n := fair.world.Pairs
	if n == 0 {
		n = pairs
	}
	random := rand.New(rand.NewPCG(fair.world.Seed, 0))
	for range n {
		if len(silent) < 2 {
			break
		}
		i, j := random.IntN(len(silent)), random.IntN(len(silent)-1)
		if j >= i {
			j++
		}
		attempt(Plan{silent[min(i, j)], silent[max(i, j)]})
	}
	return report
}

// silence has the default loggers discard what they get, until the function that it returns is called.
func silence() (end func()) {
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	return func() {
		slog.SetDefault(was)
		log.SetOutput(out) // SetDefault takes it, and does not give it back
		log.SetFlags(flags)
	}
}

// Replay runs one plan, and returns the failure, or nil.
func Replay(t *testing.T, world func() World, plan Plan) *Failure {
	t.Helper()
	x := &explorer{t: t, world: world, fair: make(map[string]*run)}
	steps := x.allSteps()
	if fair := x.without(steps); fair.problem != nil {
		return &Failure{Problem: "without any fault: " + fair.problem.text, Timeline: fair.timeline(), Steps: steps}
	}
	return x.try(plan, steps)
}

// singles returns every fault that can happen to the run without faults.
func singles(fair *run, steps int) (faults []Fault) {
	commits := fair.db.log
	for _, p := range fair.positions {
		f := Fault{System: p.system, Op: p.op, Object: p.object, Nth: p.nth}
		with := func(do Do) Fault { f.Do = do; return f }
		if !p.write {
			faults = append(faults, with(ReadFails))
			continue
		}
		for _, do := range []Do{CrashBefore, CrashAfter, Down, LoseRequest, LoseReply, Slow, Zombie} {
			faults = append(faults, with(do))
		}
		if p.op == "update" || p.op == "delete" {
			faults = append(faults, with(Conflict))
		}
		s := fair.systemOf(p.system)
		if s.Lease != "" {
			faults = append(faults, with(LoseLease))
		}
		for n := 1; s.Lease != "" && p.op == "effect" && n <= steps-p.step+1; n++ {
			late := with(Late)
			late.N = n
			faults = append(faults, late)
		}
		for _, kind := range s.kinds {
			lag := with(Lag)
			lag.Kind = kind
			faults = append(faults, lag)
		}
		// The past begins right before each change that the system can see. The version after the write is one more than that
		// before it.
		for v := p.before; v > 0; v-- {
			if !slices.Contains(s.kinds, commits[v-1].kind) {
				continue
			}
			travel := with(Travel)
			travel.N = int(p.before - (v - 1))
			if p.op != "effect" {
				travel.N++
			}
			faults = append(faults, travel)
		}
	}
	for _, s := range fair.systems {
		if s.Trusted {
			continue
		}
		for step := 1; step <= steps; step++ {
			faults = append(faults, Fault{Do: Restart, System: s.Name, Nth: step})
		}
		faults = append(faults, gaps(fair, s)...)
	}
	return faults
}

// gaps returns the gaps of a system: each pair of changes of an object, where the second follows the first, or is the last.
func gaps(fair *run, s *system) (faults []Fault) {
	last := make(map[string]int)
	kinds := make(map[string]string)
	var order []string
	for _, c := range fair.db.after(0, informer.Version(len(fair.db.log))) {
		if !slices.Contains(s.kinds, c.kind) {
			continue
		}
		if last[c.object()] == 0 {
			order = append(order, c.object())
		}
		last[c.object()]++
		kinds[c.object()] = c.kind
	}
	for _, object := range order {
		for n := 1; n < last[object]; n++ {
			gap := Fault{Do: Gap, System: s.Name, Object: object, Nth: n, N: n + 1}
			faults = append(faults, gap)
			if n+1 < last[object] {
				gap.N = last[object]
				faults = append(faults, gap)
			}
		}
	}
	return faults
}

// shrink returns the failure with as few faults and steps of the user as possible, and each fault as early as possible. What is
// left fails in the same way.
func (x *explorer) shrink(f *Failure) *Failure {
	smaller := func(plan Plan, steps []int) bool {
		g := x.try(plan, steps)
		if g == nil || g.sort != f.sort {
			return false
		}
		f = g
		return true
	}
	for i := len(f.Plan) - 1; i >= 0 && len(f.Plan) > 1; i-- {
		smaller(slices.Delete(slices.Clone(f.Plan), i, i+1), f.Steps)
	}
	for i := len(f.Steps) - 1; i >= 0; i-- {
		smaller(f.Plan, slices.Delete(slices.Clone(f.Steps), i, i+1))
	}
	for i := range f.Plan {
		for n := 1; n < f.Plan[i].Nth && f.Plan[i].Do != Gap; n++ {
			plan := slices.Clone(f.Plan)
			plan[i].Nth = n
			if smaller(plan, f.Steps) {
				break
			}
		}
	}
	return f
}
