package classics_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
)

// classic is one bug, with and without its fix.
type classic struct {
	name  string
	world func(fixed bool) simtest.World
	finds string // a fault that shows the bug
}

var classics = []classic{
	{"rabbitmq-782", rabbitmq782, "crash-after"},
	{"zookeeper-312", zookeeper312, "travel"},
	{"cassandra-398", cassandra398, "gap"},
	{"ack-2062", ack2062, "crash-after"},
	{"kuberay-715", kuberay715, "lag"},
	{"knative-8539", knative8539, "gap"},
}

// CLASSICS_MODEL=full also tries pairs of faults for each bug, and 500 pairs for each fix, as the table in README.md does. The
// output of go test -v has the rows of that table.
const modelVariable = "CLASSICS_MODEL"

func TestEachClassicIsFoundAndItsFixPasses(t *testing.T) {
	full := os.Getenv(modelVariable) == "full"
	for _, c := range classics {
		t.Run(c.name, func(t *testing.T) {
			buggy := c.explore(t, false, "step") // each bug shows itself with one fault
			if full {
				buggy = simtest.Explore(t, func() simtest.World { return c.world(false) })
			}
			if len(buggy.Failures) == 0 {
				t.Fatal("the bug is not found")
			}
			if len(buggy.Failures[0].Plan) == 0 {
				t.Fatalf("it fails without faults: %v", buggy.Failures[0])
			}
			byFault := false
			for _, f := range buggy.Failures {
				for _, plan := range append(f.More, f.Plan) {
					byFault = byFault || plan[0].Do == c.finds
				}
			}
			if !byFault {
				t.Fatalf("no %s finds it", c.finds)
			}
			fixed := simtest.Explore(t, func() simtest.World {
				w := c.world(true)
				w.Pairs = 500
				if !full {
					w.Pairs = 20
				}
				return w
			})
			for _, f := range fixed.Failures {
				t.Error("the fix reports a failure:", f)
			}
			smallest := buggy.Failures[0].Plan
			t.Logf("| %s | %d of %d | %v | `%s` | %d of %d | %d of %d | %v |", c.name, buggy.Failing, buggy.Plans, inMilliseconds(buggy),
				smallest, faults(smallest), len(smallest), fixed.Failing, fixed.Plans, inMilliseconds(fixed))
		})
	}
}

func inMilliseconds(r *simtest.Report) time.Duration { return r.Elapsed.Round(time.Millisecond) }

// faults returns how many elements of a plan are faults. The others are steps that the user leaves out.
func faults(plan simtest.Plan) (n int) {
	for _, f := range plan {
		if f.Do != "skip" {
			n++
		}
	}
	return n
}

// reports are those of classic.explore, by its arguments.
var reports = make(map[string]*simtest.Report)

// explore tries every fault in a mode, without pairs. Several tests use the report.
func (c classic) explore(t *testing.T, fixed bool, mode string) *simtest.Report {
	t.Helper()
	name := fmt.Sprint(c.name, fixed, mode)
	if reports[name] == nil {
		reports[name] = simtest.Explore(t, c.in(fixed, mode))
	}
	return reports[name]
}

// in returns the world of a mode, without pairs.
func (c classic) in(fixed bool, mode string) func() simtest.World {
	return func() simtest.World {
		w := c.world(fixed)
		w.Mode, w.Pairs = mode, -1
		return w
	}
}

// loop makes a system of one controller.
func loop(
	name string, cfg controller.Config[string], reconcile func(context.Context, string) error, inputs ...controller.Input[string],
) ([]simtest.Part, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := controller.New(name, func(ctx context.Context, key string) (controller.Result, error) {
		return controller.Result{}, reconcile(ctx, key)
	}, cfg, inputs...)
	return []simtest.Part{simtest.Loop(c)}, err
}
