package leaderelect_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestHooksReportTermsAndCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var told []string
		note := func(what ...any) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(what...))
		}
		w.plan = func(c call) (fault, time.Duration) {
			if c.op == "get" && c.n > 1 {
				return lostRequest, 0
			}
			return on("a", "update", 1, lostRequest, 0)(c)
		}
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Hooks = leaderelect.Hooks{
				StartedLeading: func(term uint64) { note("started ", term) },
				StoppedLeading: func(term uint64, cause error) { note("stopped ", term, " ", cause) },
				Request: func(operation string, took time.Duration, err error) {
					note(operation, " ", took, " ", err)
				},
			}
		})
		a.behave = func(_ context.Context, l *leaderelect.Leadership) error {
			note("works")
			time.Sleep(retry + time.Second)
			return errExpected
		}
		require.ErrorIs(t, a.RunOnce(t.Context()), errExpected)
		assert.Equal(t, []string{
			"get 2ms " + leaderelect.ErrNotFound.Error(), "create 2ms <nil>", "started 1", "works",
			"update 0s connection reset", "get 0s connection reset", "stopped 1 failed on purpose",
			"update 0s connection reset", "get 0s connection reset",
		}, told)
		w.forgot = true
		w.finish(t)
	})
}

func TestTermResignedBeforeWorkIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.plan = on("a", "create", 1, slowReply, time.Second)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.Hooks.StartedLeading = func(uint64) { t.Error("it has not started") }
			cfg.Hooks.StoppedLeading = func(uint64, error) { t.Error("it has not stopped") }
		})
		a.start()
		after(500 * time.Millisecond)
		require.NoError(t, a.Resign(t.Context(), time.Hour))
		after(time.Minute)
		require.Zero(t, w.led())
		require.Empty(t, w.read().Holder)
		require.NoError(t, a.stop())
		w.finish(t)
	})
}

func TestStatsCountEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", watched)
		assert.Equal(t, leaderelect.Stats{}, a.Stats())
		a.start()
		after(time.Second)
		l := w.term(t, 1).leadership
		assert.Equal(t, leaderelect.Stats{Leading: true, Term: 1, Deadline: l.Deadline(), Terms: 1, Watching: true}, a.Stats())
		w.cut("a", renew)
		after(renew + time.Second)
		stats := a.Stats()
		assert.ErrorContains(t, stats.LastError, "no reply in time")
		stats.LastError = nil
		assert.Equal(t, leaderelect.Stats{Terms: 1, Lost: 1, Watching: true}, stats)
		after(request + retry) // a read was under way when the network came back
		assert.Equal(t, uint64(2), a.Stats().Terms)
		assert.Equal(t, uint64(2), a.Stats().Term)
		require.NoError(t, a.stop())
		assert.Equal(t, leaderelect.Stats{Terms: 2, Lost: 1}, a.Stats())
		w.finish(t)
	})
}

// exitVariable makes this test binary a process whose work outlives its lease.
const exitVariable = "LEADERELECT_TEST_EXIT"

func TestExitOnOverrunEndsProcess(t *testing.T) {
	if os.Getenv(exitVariable) != "" {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.OnStepDownOverrun = leaderelect.ExitOnOverrun })
			a.behave = work{linger: time.Hour}.run
			a.start()
			after(time.Second)
			w.cut("a", time.Hour)
			after(2 * lease)
			t.Fatal("it goes on")
		})
	}
	t.Parallel()
	child := exec.Command(os.Args[0], "-test.run=^TestExitOnOverrunEndsProcess$")
	child.Env = append(os.Environ(), exitVariable+"=1")
	var log bytes.Buffer
	child.Stderr = &log
	var exit *exec.ExitError
	require.ErrorAs(t, child.Run(), &exit)
	assert.Equal(t, 1, exit.ExitCode())
	assert.Contains(t, log.String(), "exit: the work continues although another elector may lead")
}
