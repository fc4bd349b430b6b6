package simtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-go/setpoint/simtest"
)

func TestUnparsablePlanIsNamed(t *testing.T) {
	for text, says := range map[string]string{
		"crash-after":                      `"crash-after" has no arguments`,
		"explode(s create to/a#1)":         "explode: there is no such fault",
		"crash-after(s create to/a#1":      "a closing parenthesis is missing",
		"crash-after(s create to/a)":       "it has 3 words, not 5",
		"crash-after(s create to/a#1 2)":   "it has 6 words, not 5",
		"crash-after(s create to/a#0)":     `"0" is not a positive number`,
		"travel(s create to/a#1 forth 2)":  `found "forth", expected "back"`,
		`crash-after("s create to/a#1)`:    "invalid syntax",
		"crash-after(s create to/a#1) lag": `"lag" has no arguments`,
	} {
		_, err := simtest.ParsePlan(text)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, "simtest: parse plan: ") || !strings.Contains(got, says) {
			t.Fatalf("simtest.ParsePlan(%q): %v, want an error of the parser that contains %q", text, err, says)
		}
	}
}

func FuzzParsePlan(f *testing.F) {
	f.Add("crash-after(rmq update sts/a#1)")
	f.Add(`crash-after("" update sts/a#1)`)
	f.Add("late(s effect tell#1 by 2) lose-lease(s update to/a#1) regain(s update to/a#1) cold(s create to/a#1 of to)")
	f.Add(`lag("my system" create "pods/a b#\"#\""#2 of pods) gap(s x/y#1 to 3) restart(s step#2) travel(s effect vpc#1 back 4)`)
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := simtest.ParsePlan(text)
		if err != nil {
			return
		}
		again, err := simtest.ParsePlan(plan.String())
		if err != nil {
			t.Fatalf("%v: %v", plan.String(), err)
		}
		if diff := cmp.Diff(plan, again); diff != "" {
			t.Fatalf("the plan parsed again, mismatch (-want +got):\n%s", diff)
		}
	})
}

// A plan that was not parsed may name an unknown fault.
func TestPlanWithUnknownFaultIsNotReplayed(t *testing.T) {
	for _, bad := range []simtest.Fault{
		{Do: "explode", System: "s", Op: "create", Object: "to/a", Nth: 1},
		{Do: "crash-after", System: "s", Op: "create", Object: "to/a"},
	} {
		inner := new(testing.T)
		done := make(chan struct{})
		// Ends with Replay, which ends it as a test.
		go func() {
			defer close(done)
			simtest.Replay(inner, copier, simtest.Plan{bad})
		}()
		<-done
		if !inner.Failed() {
			t.Fatalf("simtest.Replay runs %s", bad)
		}
	}
}
