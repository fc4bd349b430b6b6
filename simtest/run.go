package simtest

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/simtest/internal/corpus"
	"github.com/setpoint-go/setpoint/simtest/internal/database"
	"github.com/setpoint-go/setpoint/simtest/internal/decoded"
	"github.com/setpoint-go/setpoint/simtest/internal/fault"
	"github.com/setpoint-go/setpoint/simtest/internal/live"
	"github.com/setpoint-go/setpoint/simtest/internal/part"
	"github.com/setpoint-go/setpoint/simtest/internal/search"
	"github.com/setpoint-go/setpoint/simtest/internal/sim"
	"github.com/setpoint-go/setpoint/simtest/internal/step"
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
	file, err := corpus.Write(corpus.Dir(t.Name()), f.Plan.String(), fmt.Sprintf("%s %s: %s", f.Severity, f.Rule, f.Problem))
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
	p := &player{t: t, world: world}
	x := search.New(p.play)
	x.Tell = newProgress(t).step
	x.Without(nil) // the world is known from here on
	w := p.first
	report := x.Explore(corpus.Dir(t.Name()), search.Limits{
		Pairs: w.Pairs, Budget: durationOf(t, "budget", *budgetFlag, w.Budget), Seed: w.Seed, Exhaustive: w.Exhaustive,
	})
	return reportOf(report, time.Since(began))
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
	faults, err := fault.Parse(plan.String())
	if err != nil {
		t.Fatal(err)
	}
	defer withoutCrashes()()
	p := &player{t: t, world: world}
	found, unmet := search.New(p.play).Replay(faults)
	if found == nil {
		return nil, unmet
	}
	return failureOf(found), unmet
}

// patience is how much real time a plan may take before it is named.
const patience = 30 * time.Second

// player runs a world under plans.
type player struct {
	t        *testing.T
	world    func() World
	first    *World             // the first one that was run
	decoded  decoded.Values     // of all runs
	patience time.Duration      // defaults to that above
	warn     func(warns string) // defaults to the standard error, which also shows it if the test never ends
}

// play runs a plan in a bubble.
func (p *player) play(plan fault.Plan) (r *sim.Run) {
	late := time.AfterFunc(cmp.Or(p.patience, patience), func() { p.tooLong(plan) })
	defer late.Stop()
	synctest.Test(p.t, func(*testing.T) {
		w := p.world()
		if p.first == nil {
			p.first = &w
		}
		r = sim.Play(simulated(w, &p.decoded), plan, func(r *sim.Run) (sim.Driver, error) { return driverOf(w, r) })
	})
	return r
}

// tooLong names a plan that has not ended. Nothing can end a loop in which no call is made.
func (p *player) tooLong(plan fault.Plan) {
	name := "without faults"
	if len(plan) > 0 {
		name = fmt.Sprintf("of -simtest.plan='%s'", plan)
	}
	text := fmt.Sprintf("simtest: %s: the run %s has not ended after %v: does a reconcile or a part loop without a call of the Env?\n",
		p.t.Name(), name, cmp.Or(p.patience, patience))
	if p.warn != nil {
		p.warn(text)
		return
	}
	fmt.Fprint(os.Stderr, text)
}

// driverOf returns the driver of the systems of a world.
func driverOf(w World, r *sim.Run) (sim.Driver, error) {
	mode := w.Mode
	if *modeFlag != "" {
		mode = *modeFlag
	}
	switch mode = strings.ToLower(mode); mode {
	case "", "step":
		return step.New(r), nil
	case "run":
		return live.New(r), nil
	}
	return nil, fmt.Errorf(`there is no mode %q: it is "step" or "run"`, mode)
}

// simulated returns a world in the form of package sim.
func simulated(w World, values *decoded.Values) sim.World {
	s := sim.World{Same: w.Same, Horizon: w.Horizon, MaxReconciles: w.MaxReconciles}
	for _, system := range w.Systems {
		s.Systems = append(s.Systems, sim.System{
			Name: system.Name, Trusted: system.Trusted, Lease: system.Lease,
			New: func(p *sim.Process) ([]part.Part, error) {
				parts, err := system.New(&Env{p: p, all: stores{backend: p.Backend(), newUID: p.Run.NewUID, decoded: values}})
				if err != nil {
					return nil, err
				}
				inner := make([]part.Part, len(parts))
				for i, p := range parts {
					inner[i] = p.part()
				}
				return inner, nil
			},
		})
	}
	var user *User
	for _, step := range w.Steps {
		s.Steps = append(s.Steps, sim.Step{Name: step.Name, Do: func(ctx context.Context, h *database.Handle) error {
			if user == nil {
				user = &User{stores{backend: h, newUID: h.NewUID, decoded: values}}
			}
			return step.Do(ctx, user)
		}})
	}
	var view *View
	look := func(check func(*View) error) func(*database.Handle) error {
		if check == nil {
			return nil
		}
		return func(h *database.Handle) error {
			if view == nil {
				view = &View{stores{backend: h, newUID: h.NewUID, decoded: values}}
			}
			return check(view)
		}
	}
	s.Always, s.Goal = look(w.Always), look(w.Goal)
	return s
}
