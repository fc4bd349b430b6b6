package manager_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

// doubling restarts after 1 s, 2 s, 4 s, ...
var doubling = wait.Backoff{Duration: time.Second, Factor: 2, Cap: 8 * time.Second}

// failing is a part that fails in all the ways, one after the other, each time after it has run for a while.
func failing(events *looptest.Log[time.Time], ran time.Duration) func(context.Context) error {
	var times atomic.Int64
	return func(ctx context.Context) error {
		events.Add(time.Now())
		if wait.Sleep(ctx, ran) != nil {
			return nil
		}
		switch times.Add(1) % 4 {
		case 0:
			panic("oh")
		case 1:
			return errBoom
		case 2:
			runtime.Goexit()
		}
		return nil
	}
}

// seconds returns the times as seconds since the first.
func seconds(times []time.Time) (since []float64) {
	for _, at := range times {
		since = append(since, at.Sub(times[0]).Seconds())
	}
	return since
}

func TestFailedPartRestartsAfterBackoff(t *testing.T) {
	for _, kind := range []string{"informer", "part"} {
		bubble(t, string(kind), func(t *testing.T) {
			starts := &looptest.Log[time.Time]{}
			s := newStage(t, manager.Config{Restart: doubling})
			if kind == "informer" {
				s.informer.run = failing(starts, time.Second)
			} else {
				s.part.run = failing(starts, time.Second)
			}
			r := looptest.Start(t, s.manager.Run)
			time.Sleep(30*time.Second + 500*time.Millisecond)
			s.manager.CheckInvariants(t)
			assert.Equal(t, []float64{0, 2, 5, 10, 19, 28}, seconds(starts.Take()), "1 s to run, and 1, 2, 4, 8, 8 s to wait")
			stats := s.manager.Stats().Parts
			part := stats[0]
			if kind == "part" {
				part = stats[1]
			}
			assert.Equal(t, "backing off", part.State)
			assert.Equal(t, 1500*time.Millisecond, time.Since(part.Since))
			assert.Equal(t, 5, part.Restarts)
			require.ErrorContains(t, part.Err, "runtime.Goexit", "the sixth failure, as the second")
			assert.False(t, r.Ended())
			require.NoError(t, r.Stop(), "a recovered failure is not returned")
			time.Sleep(time.Minute)
			assert.Empty(t, starts.Take())
		})
	}
}

func TestHealthyPeriodResetsFailures(t *testing.T) {
	for _, test := range []struct {
		name   string
		cfg    manager.Config
		ran    time.Duration
		pauses []time.Duration
	}{
		{"shorter than the default", manager.Config{}, time.Minute - 1, []time.Duration{time.Second, 2 * time.Second}},
		{"as long as the default", manager.Config{}, time.Minute, []time.Duration{time.Second, time.Second}},
		{"shorter than HealthyAfter", manager.Config{HealthyAfter: time.Hour}, time.Hour - 1, []time.Duration{time.Second, 2 * time.Second}},
		{"as long as HealthyAfter", manager.Config{HealthyAfter: time.Hour}, time.Hour, []time.Duration{time.Second, time.Second}},
	} {
		bubble(t, test.name, func(t *testing.T) {
			test.cfg.Restart = doubling
			s := newStage(t, test.cfg)
			var ended time.Time
			var pauses []time.Duration
			s.part.run = func(ctx context.Context) error {
				if !ended.IsZero() {
					pauses = append(pauses, time.Since(ended))
				}
				if len(pauses) == 2 {
					<-ctx.Done()
					return nil
				}
				time.Sleep(test.ran)
				ended = time.Now()
				return errBoom
			}
			r := looptest.Start(t, s.manager.Run)
			time.Sleep(3 * test.ran)
			require.NoError(t, r.Stop())
			assert.Equal(t, test.pauses, pauses)
		})
	}
}

// The time to sync does not count, and an informer that has not synced is never healthy.
func TestInformerIsHealthyOnlyWhileSynced(t *testing.T) {
	inStage(t, manager.Config{Restart: doubling}, func(t *testing.T, s *fakeStage) {
		s.informer.hold = true
		starts := &looptest.Log[time.Time]{}
		runs := 0
		s.informer.run = func(ctx context.Context) error {
			starts.Add(time.Now())
			switch runs++; runs {
			case 1:
				time.Sleep(90 * time.Second)
			case 2:
				time.Sleep(59 * time.Second)
				close(s.informer.synced)
				time.Sleep(59 * time.Second)
			case 3:
				time.Sleep(time.Minute)
			case 4:
				<-ctx.Done()
				return nil
			}
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []float64{0, 90 + 1, 90 + 1 + 118 + 2, 90 + 1 + 118 + 2 + 60 + 1}, seconds(starts.Take()))
		require.NoError(t, r.Stop())
	})
}

func TestRestartEndsAfterStepsOrEndedInformer(t *testing.T) {
	for what, c := range map[string]struct {
		err    error
		starts []float64
	}{
		"the failure of the last step": {errBoom, []float64{0, 1, 2}},
		"an informer that has ended":   {errors.Join(informer.ErrEnded), []float64{0}},
	} {
		bubble(t, what, func(t *testing.T) {
			starts := &looptest.Log[time.Time]{}
			s := newStage(t, manager.Config{Restart: wait.Backoff{Duration: time.Second, Steps: 3}})
			s.part.run = func(context.Context) error { starts.Add(time.Now()); return c.err }
			require.ErrorIs(t, s.manager.Run(t.Context()), c.err)
			assert.Equal(t, c.starts, seconds(starts.Take()))
		})
	}
}

// A part may also end for good without stopping the others.
func TestFailingPartMayRemoveItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newStage(t, manager.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		s.part.run = func(context.Context) error {
			assert.ErrorContains(t, s.manager.Remove(ended(), "part"), "has not ended yet")
			return errBoom
		}
		r := s.start(t)
		s.manager.CheckInvariants(t)
		assert.Len(t, s.manager.Stats().Parts, 1, "the informer")
		assert.Contains(t, logged.String(), `level=WARN msg="a removed part ended with an error" kind=part name=part error=boom`)
		s.part.run = nil
		require.NoError(t, s.manager.Add(s.part), "the name is free")
		require.NoError(t, r.Stop())
	})
}

func TestFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := newStage(t, manager.Config{Restart: doubling, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		s.part.run = func(context.Context) error { time.Sleep(time.Minute); panic(errBoom) }
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(61*time.Second - 1)
		synctest.Wait()
		assert.Contains(t, logged.String(), `level=WARN msg="part failed, and will run again" kind=part name=part error="panic: boom" `+
			`failures=1 ran=1m0s after=1s stack=`)
		assert.Contains(t, logged.String(), "failure_test.go", "the stack of the panic")
		require.NoError(t, r.Stop())
	})
}

func TestLateInformerIsRestarted(t *testing.T) {
	inStage(t, manager.Config{SyncTimeout: time.Minute, Restart: doubling}, func(t *testing.T, s *fakeStage) {
		s.informer.hold = true
		tries := 0
		s.informer.run = func(ctx context.Context) error {
			if tries++; tries == 2 {
				close(s.informer.synced)
			}
			<-ctx.Done()
			if tries == 1 {
				return errBoom
			}
			return ctx.Err()
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute + 500*time.Millisecond)
		assert.Equal(t, []string{"informer starts", "informer stops"}, s.events.Take())
		require.ErrorIs(t, s.manager.Stats().Parts[0].Err, manager.ErrSyncTimeout)
		require.ErrorIs(t, s.manager.Stats().Parts[0].Err, errBoom)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"informer starts", "part starts"}, s.events.Take())
		require.NoError(t, r.Stop())
	})
}

func TestLateInformerStillFailsWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		informer := newFakeInformer("slow", &looptest.Log[string]{})
		for range 50 { // both are true, and select takes either
			require.ErrorIs(t, manager.AwaitSync(done, make(chan struct{}), 0, informer.synced), manager.ErrSyncTimeout)
		}
		require.NoError(t, manager.AwaitSync(done, make(chan struct{}), 1, informer.synced))
		require.NoError(t, manager.AwaitSync(done, make(chan struct{}), -1, informer.synced))
	})
}

func TestNegativeSyncTimeoutWaitsForever(t *testing.T) {
	inStage(t, manager.Config{SyncTimeout: -1}, func(t *testing.T, s *fakeStage) {
		s.informer.hold = true
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(1000 * time.Hour)
		close(s.informer.synced)
		synctest.Wait()
		assert.Equal(t, started, s.events.Take())
		require.NoError(t, r.Stop())
	})
}

func TestUnsyncedInformersAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		apps, sites := newFakeInformer("apps", &looptest.Log[string]{}), newFakeInformer("sites", &looptest.Log[string]{})
		apps.hold, sites.hold = true, true
		done := newFakeInformer("done", &looptest.Log[string]{})
		m := must(manager.New(manager.Config{Logger: quiet}, apps, sites, done))
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		require.EqualError(t, m.Ready(), `manager: not ready: the manager is syncing
manager: not ready: informer "apps" has not synced
manager: not ready: informer "sites" has not synced`)
		<-r.Done()
		require.ErrorIs(t, r.Stop(), manager.ErrSyncTimeout)
		for _, name := range []string{"apps", "sites"} {
			assert.ErrorContains(t, r.Stop(), `manager: run informer "`+name+`": not synced in time: 2m0s have passed`)
		}
	})
}

func TestBackedOffControllerStartsWithNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		starts := &looptest.Log[uint64]{}
		s := newStage(t, manager.Config{Election: election(store), Restart: wait.Backoff{Duration: time.Hour}})
		s.part.run = func(ctx context.Context) error {
			l, _ := leaderelect.FromContext(ctx)
			starts.Add(l.Term())
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		cut(store, true)
		time.Sleep(time.Minute)
		cut(store, false)
		time.Sleep(time.Minute)
		assert.Equal(t, []uint64{1, 2}, starts.Take())
		assert.Equal(t, []string{"informer starts", "part starts", "part stops", "part starts", "part stops"}, s.events.Take())
		require.NoError(t, s.manager.Remove(t.Context(), "part"), "even during backoff")
		time.Sleep(2 * time.Hour)
		assert.Empty(t, starts.Take())
		require.NoError(t, r.Stop())
	})
}

func TestFailedElectionRestarts(t *testing.T) {
	inStage(t, manager.Config{Election: election(memlease.New()), Restart: wait.Backoff{Duration: time.Minute}}, func(t *testing.T, s *fakeStage) {
		other := looptest.Start(t, s.manager.Elector().Run) // whoever else has it
		synctest.Wait()
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(30 * time.Second)
		other.Stop()
		time.Sleep(time.Minute)
		elected := s.manager.Stats().Parts[2]
		require.ErrorIs(t, elected.Err, leaderelect.ErrRunning)
		assert.Equal(t, "running", elected.State)
		assert.Equal(t, 1, elected.Restarts)
		require.NoError(t, r.Stop())
	})
}

func TestStoppedPartReturningIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		s := newStage(t, manager.Config{Election: election(store)})
		s.part.run = func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		r := s.start(t)
		cut(store, true)
		time.Sleep(time.Minute)
		cut(store, false)
		time.Sleep(time.Minute)
		require.ErrorIs(t, s.manager.Remove(t.Context(), "part"), errBoom)
		require.NoError(t, s.manager.Add(s.part))
		synctest.Wait()
		require.ErrorIs(t, r.Stop(), errBoom)
	})
}
