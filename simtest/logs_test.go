package simtest_test

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
)

func TestReplayLogsErrorsButNotCrashes(t *testing.T) {
	var out bytes.Buffer
	was := log.Writer()
	log.SetOutput(&out)
	defer log.SetOutput(was)
	plan, err := simtest.ParsePlan("crash-after(sites update site/a#1)")
	if err != nil {
		t.Fatal(err)
	}

	if simtest.Replay(t, sitesWorld, plan) == nil {
		t.Fatal("simtest.Replay(t, sitesWorld, plan) = nil")
	}
	if got := out.String(); got != "" {
		t.Errorf(`out.String() = %q, want ""`, got)
	}

	noisy := func() simtest.World {
		w := sitesWorld()
		w.Systems[0].New = func(env *simtest.Env) ([]simtest.Part, error) {
			slog.With("system", "sites").WithGroup("site").Warn("begins")
			c, err := controller.New("sites", func(context.Context, string) (controller.Result, error) {
				return controller.Result{}, errors.New("it rains")
			}, controller.Config[string]{})
			c.Add("a")
			return []simtest.Part{simtest.Loop(c)}, err
		}
		return w
	}
	simtest.Replay(t, noisy, nil)
	if got := out.String(); !strings.Contains(got, "msg=begins system=sites") {
		t.Errorf("out.String() = %q, want it to contain %q", got, "msg=begins system=sites")
	}
	if got := out.String(); !strings.Contains(got, "it rains") {
		t.Errorf("out.String() = %q, want it to contain %q", got, "it rains")
	}
	slog.Warn("afterward")
	if got := out.String(); !strings.Contains(got, "afterward") {
		t.Errorf("the log is as before: out.String() = %q, want it to contain %q", got, "afterward")
	}
}
