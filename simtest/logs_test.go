package simtest_test

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/simtest"
)

func TestReplayLogsErrorsButNotCrashes(t *testing.T) {
	var out bytes.Buffer
	was := log.Writer()
	log.SetOutput(&out)
	defer log.SetOutput(was)
	require.NotNil(t, replay(t, sitesWorld, "crash-after(sites update site/a#1)"))
	assert.Empty(t, out.String())

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
	assert.Contains(t, out.String(), "msg=begins system=sites")
	assert.Contains(t, out.String(), "it rains")
	slog.Warn("afterward")
	assert.Contains(t, out.String(), "afterward", "the log is as before")
}
