package leaderelect_test

import (
	"bytes"
	"context"
	"log/slog"
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
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
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
				require.Error(t, a.Check(time.Minute))
				close(release)
				after(time.Minute)
				assert.Greater(t, w.calls, calls)
				require.NoError(t, a.Check(0))
				w.forgot = true
				w.finish(t)
			})
		})
	}
}

func TestSlowDrainOverrunsOnlyAfterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func TestDrainTimeoutDefaultsToThirtySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
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
		w.finish(t)
	})
}

func TestWorkStoppingInTimeDoesNotOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { t.Error("it has stopped in time") }
		})
		a.behave = work{linger: stepDown - 1}.run
		a.start()
		after(time.Second)
		w.cut("a", time.Hour)
		after(time.Hour)
		require.Equal(t, latency+renew+stepDown-1, w.at(w.term(t, 1).returned))
		w.finish(t)
	})
}

// It may write too, as a last step of the work.
func TestSlowOnStoppedLeadingOverruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var overrun time.Duration
		var stopped func(*leaderelect.Leadership, error)
		a := w.join(t, "a", func(cfg *leaderelect.Config) {
			stopped = cfg.OnStoppedLeading
			cfg.OnStoppedLeading = func(l *leaderelect.Leadership, cause error) {
				time.Sleep(lease)
				stopped(l, cause)
			}
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overrun = w.at(time.Now()) }
		})
		a.start()
		after(time.Second)
		w.cut("a", time.Minute)
		after(time.Minute)
		assert.Equal(t, latency+renew, w.at(w.term(t, 1).returned))
		assert.Equal(t, latency+renew+stepDown, overrun)
		w.finish(t)
	})
}

func TestWorkReturningInTimeDoesNotOverrunEvenIfSeenLate(t *testing.T) {
	for range 60 { // of two events at the same time, select takes either
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			var slow atomic.Bool
			a := w.join(t, "a", func(cfg *leaderelect.Config) {
				cfg.Hooks.Request = func(string, time.Duration, error) {
					if slow.Load() {
						time.Sleep(2 * lease) // Run waits for it
					}
				}
				cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { t.Error("it has stopped in time") }
			})
			a.start()
			after(time.Second)
			slow.Store(true)
			after(renew + retry)
			require.False(t, w.term(t, 1).returned.IsZero(), "the work has stopped")
			after(lease)
			slow.Store(false)
			after(lease)
			w.finish(t)
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
		assert.Contains(t, log.String(), `level=ERROR msg="leaderelect: the work continues although another elector may lead" key=lease identity=a term=1`)
		w.finish(t)
	})
}
