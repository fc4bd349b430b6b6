package leaderelect_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/leaderelect"
)

func TestOverrunIsReportedAndDelaysNextCampaign(t *testing.T) {
	for what, c := range map[string]struct {
		lose  func(w *world)
		lost  time.Duration // when
		until time.Duration // from when on StepDownTimeout counts
	}{
		"expired": {func(w *world) { w.cut("a", time.Hour) }, latency + renew, latency + renew},
		"taken": {func(w *world) {
			w.write(record{Holder: "x", Incarnation: "x", Term: 2, Renewal: 1, LeaseMillis: 15_000})
		}, latency + retry + 2*latency, latency + retry + 2*latency},
	} {
		subWorld(t, what, func(t *testing.T, w *world) {
			var overruns []time.Duration
			a := w.join(t, "a", func(cfg *leaderelect.Config) {
				cfg.OnStepDownOverrun = func(l *leaderelect.Leadership) {
					assert.Error(t, l.Err())
					overruns = append(overruns, w.at(time.Now()))
				}
			})
			release := make(chan struct{})
			a.behave = func(context.Context, *leaderelect.Leadership) error {
				<-release
				return nil
			}
			a.start()
			after(time.Second)
			c.lose(w)
			after(time.Minute)
			require.Len(t, overruns, 1)
			assert.InDelta(t, c.until+stepDown, overruns[0], float64(latency))
			calls := w.calls
			after(time.Hour)
			assert.Equal(t, calls, w.calls, "it does not compete while its work runs")
			assert.Len(t, overruns, 1)
			require.Error(t, a.Check())
			close(release)
			after(time.Minute)
			assert.Greater(t, w.calls, calls)
			require.NoError(t, a.Check())
			w.forgot = true
		})
	}
}

func TestSlowDrainOverrunsOnlyAfterLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var overrun time.Duration
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.DrainTimeout = time.Second
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overrun = w.at(time.Now()) }
		})
		a.behave = work{drain: time.Hour, linger: time.Minute}.run
		a.start()
		after(time.Second)
		a.cancel(context.Canceled)
		after(2 * time.Minute)
		assert.Equal(t, latency+renew+stepDown, overrun)
	})
}

func TestDrainTimeoutDefaultsToThirtySeconds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", nil)
		a.behave = work{drain: time.Hour}.run
		a.start()
		after(time.Second)
		a.cancel(context.Canceled)
		after(30*time.Second - 1)
		l := w.term(t, 1).leadership
		require.NoError(t, l.Context().Err())
		after(1)
		require.ErrorIs(t, context.Cause(l.Context()), leaderelect.ErrDrainTimeout)
		assert.EqualValues(t, 1, a.Stats().Lost)
	})
}

func TestWorkStoppingInTimeDoesNotOverrun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { t.Error("it has stopped in time") }
		})
		a.behave = work{linger: stepDown - 1}.run
		a.start()
		after(time.Second)
		w.cut("a", time.Hour)
		after(time.Hour)
		require.Equal(t, latency+renew+stepDown-1, w.at(w.term(t, 1).returned))
	})
}

// It may write too, as a last step of the work.
func TestSlowOnStoppedLeadingOverruns(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var overrun time.Duration
		var stopped func(*leaderelect.Leadership, error)
		w.leader(t, func(cfg *leaderelect.Config) {
			stopped = cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
				time.Sleep(lease)
				stopped(l, cause)
			}
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overrun = w.at(time.Now()) }
		})
		w.cut("a", time.Minute)
		after(time.Minute)
		assert.Equal(t, latency+renew, w.at(w.term(t, 1).returned))
		assert.Equal(t, latency+renew+stepDown, overrun)
	})
}

func TestWorkReturningInTimeDoesNotOverrunEvenIfSeenLate(t *testing.T) {
	for range 60 { // of two events at the same time, select takes either
		inWorld(t, func(t *testing.T, w *world) {
			var slow atomic.Bool
			w.leader(t, func(cfg *leaderelect.Config) {
				cfg.Hooks.Request = func(string, time.Duration, error) {
					if slow.Load() {
						time.Sleep(2 * lease) // Run waits for it
					}
				}
				cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { t.Error("it has stopped in time") }
			})
			slow.Store(true)
			after(renew + retry)
			require.False(t, w.term(t, 1).returned.IsZero(), "the work has stopped")
			after(lease)
			slow.Store(false)
			after(lease)
		})
	}
}

func TestOverrunWithoutCallbackIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t)
		a := w.join(t, "a", func(cfg *leaderelect.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		a.behave = work{linger: lease}.run
		a.start()
		after(time.Second)
		w.cut("a", time.Hour)
		after(2 * lease)
		require.NoError(t, a.stop())
		assert.Contains(t, log.String(), `level=ERROR msg="the work continues although another elector may lead" lease=lease identity=a term=1`)
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
	assert.Contains(t, log.String(), "the work continues although another elector may lead, and the process ends")
}
