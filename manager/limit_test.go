package manager_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deaf returns what a part does that does not hear that it is told to end, until hear is called.
func deaf(t *testing.T) (run func(context.Context) error, hear func()) {
	heard := make(chan struct{})
	hear = sync.OnceFunc(func() { close(heard) })
	t.Cleanup(hear) // it is not to be left in the bubble
	return func(context.Context) error { <-heard; return nil }, hear
}

func TestPartIgnoringItsContextDoesNotBlockManagerForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{})
		run, hear := deaf(t)
		s.part.run = run
		require.NoError(t, s.manager.Add(manager.At(manager.Always, &fakePart{name: "everywhere", events: &looptest.Log[string]{}, run: run})))
		require.NoError(t, s.manager.Add(newFakePart("good", s.events)))
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		s.events.Take()
		began := time.Now()
		err := r.Stop()
		assert.Equal(t, 63*time.Second, time.Since(began))
		require.ErrorIs(t, err, manager.ErrStopTimeout)
		require.EqualError(t, err, `manager: run part "part": it has not returned: not stopped in time: 1m3s have passed
manager: run part "everywhere": it has not returned: not stopped in time: 1m3s have passed`)
		assert.Equal(t, []string{"good drained", "good stops", "informer stops"}, s.events.Take(), "no BeforeRelease: the parts have not ended")
		s.manager.CheckInvariants(t)
		assert.Equal(t, "stopping", s.manager.Stats().Parts[1].State)
		assert.Equal(t, began, s.manager.Stats().Parts[1].Since)

		hear()
		synctest.Wait()
		assert.Equal(t, "waiting", s.manager.Stats().Parts[1].State)
		s.manager.CheckInvariants(t)
	})
}

func TestLeaseIsKeptWhileAbandonedPartRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		var overruns atomic.Int64
		cfg := election(store)
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overruns.Add(1) }
		s := newStage(t, manager.Config{Election: cfg, StopTimeout: 10 * time.Second})
		run, hear := deaf(t)
		s.part.run = run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		other := newStage(t, manager.Config{Election: election(store)})
		looptest.Start(t, other.manager.Run)
		s.events.Take()
		began := time.Now()
		require.EqualError(t, r.Stop(),
			`manager: run part "part": it has not returned: not stopped in time: 13s have passed`)
		assert.LessOrEqual(t, time.Since(began), 20*time.Second)
		assert.Equal(t, []string{"informer stops"}, s.events.Take())
		assert.Equal(t, []string{"informer starts"}, other.events.Take(), "the lease is held")
		assert.Zero(t, overruns.Load())

		time.Sleep(time.Minute) // the lease is no longer renewed
		assert.Equal(t, []string{"part starts"}, other.events.Take())
		assert.EqualValues(t, 1, overruns.Load())
		require.ErrorContains(t, s.manager.Check(), `manager: check part "part": `)
		hear()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
}

func TestPartsThatNeverReturnAreNamed(t *testing.T) {
	const limit = `: it has not returned: not stopped in time: `
	bubble(t, "an informer", func(t *testing.T) {
		s := newStage(t, manager.Config{Election: election(newLeases())})
		run, _ := deaf(t)
		s.informer.run = run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.Stop(), `manager: run informer "informer"`+limit+`1m3s have passed`)
		assert.Equal(t, []string{"part starts", "part drained", "part stops", "hook"}, s.events.Take()[1:])
	})
	bubble(t, "an informer that has not synced", func(t *testing.T) {
		s := newStage(t, manager.Config{})
		run, _ := deaf(t)
		s.informer.hold, s.informer.run = true, run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.Stop(), `manager: run informer "informer"`+limit+`1m3s have passed`)
	})
	bubble(t, "BeforeRelease", func(t *testing.T) {
		store := &watchedLeases{Store: newLeases()}
		s := newStage(t, manager.Config{Election: election(store)})
		store.events = s.events
		run, hear := deaf(t)
		s.hook = run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		s.events.Take()
		r.Cancel()
		time.Sleep(time.Minute) // the leader renews its lease while it drains
		store.notes.Store(true)
		require.EqualError(t, r.Stop(), `manager: call BeforeRelease`+limit+`1m3s have passed`)
		events := s.events.Take()
		assert.Equal(t, []string{"part drained", "part stops"}, events[:2])
		assert.Contains(t, events, "informer stops")
		_, held := s.manager.Elector().Leader()
		assert.True(t, held)
		hear()
	})
	bubble(t, "a callback of the election", func(t *testing.T) {
		run, _ := deaf(t)
		cfg := election(newLeases())
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { _ = run(nil) }
		s := newStage(t, manager.Config{Election: cfg})
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.Stop(), `manager: run election "lock"`+limit+`1m6s have passed`)
		assert.Contains(t, s.events.Take(), "informer stops")
	})
	bubble(t, "a part that was removed", func(t *testing.T) {
		s := newStage(t, manager.Config{})
		run, hear := deaf(t)
		s.part.run = run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, s.manager.Remove(ended, "part"), "has not ended yet")
		time.Sleep(time.Hour)
		require.EqualError(t, s.manager.Check(), `manager: check part "part": it was told to end 1h0m0s ago, and has not returned`)
		require.EqualError(t, r.Stop(), `manager: run part "part"`+limit+`1m3s have passed`)
		hear()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
	bubble(t, "Restart", func(t *testing.T) {
		run, _ := deaf(t)
		s := newStage(t, manager.Config{Restart: func(manager.Failure) (time.Duration, bool) {
			return time.Duration(len(errText(run(nil)))), true
		}})
		s.part.run = func(context.Context) error { return errBoom }
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.Stop(), `manager: run part "part"`+limit+`1m3s have passed`)
	})
	bubble(t, "a part that shares its keys", func(t *testing.T) {
		run, hear := deaf(t)
		s := newSharedWork(t, shard.Config{Slots: 1}, func(context.Context, int) { _ = run(nil) })
		<-s.terms[0]
		require.EqualError(t, s.Stop(), `manager: run part "shared"`+limit+`1m3s have passed`)
		assert.Zero(t, s.exits.Load())
		hear()
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestStopWithoutTimeoutWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{StopTimeout: -1})
		run, hear := deaf(t)
		s.part.run = run
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		r.Cancel()
		time.Sleep(24 * time.Hour)
		assert.False(t, r.Ended())
		hear()
		require.NoError(t, r.Stop())
		assert.Contains(t, s.events.Take(), "hook")
	})
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{StopTimeout: -1})
		s.hook = func(ctx context.Context) error { return wait.Sleep(ctx, 24*time.Hour) }
		r := looptest.Start(t, s.manager.Run)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Stop(), "nor does the context of BeforeRelease end")
		assert.GreaterOrEqual(t, time.Since(began), 24*time.Hour)
	})
}

// A leader that drained for longer than the default of an elector, 30 s, would lose its lease, and the process would end.
func TestStopOfLeaderWithoutTimeoutWaits(t *testing.T) {
	for what, timeout := range map[string]time.Duration{"none": -1, "the longest": math.MaxInt64} {
		bubble(t, what, func(t *testing.T) {
			s := newStage(t, manager.Config{StopTimeout: timeout, Election: election(newLeases())})
			s.part.run = func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				assert.True(t, ok)
				<-ctx.Done()
				time.Sleep(2 * time.Hour)
				assert.NoError(t, l.Err(), "the leader keeps the lease while it drains")
				return nil
			}
			s.hook = func(context.Context) error { return nil }
			r := looptest.Start(t, s.manager.Run)
			synctest.Wait()
			require.NoError(t, s.manager.Check())
			r.Cancel()
			time.Sleep(time.Hour)
			require.NoError(t, s.manager.Check(), "a drain may take any time")
			require.NoError(t, r.Stop())
			assert.Contains(t, s.events.Take(), "hook")
		})
	}
}

// The limit counts from the start of the stop, but a call that starts late has a grace period.
func TestBeforeReleaseContextEndsWithStopTimeout(t *testing.T) {
	for drain, left := range map[time.Duration]time.Duration{
		5 * time.Second: 15 * time.Second, 19 * time.Second: 3 * time.Second, 22 * time.Second: 3 * time.Second,
	} {
		for _, elected := range []bool{false, true} {
			bubble(t, drain.String(), func(t *testing.T) {
				cfg := manager.Config{StopTimeout: 20 * time.Second}
				if elected {
					cfg.Election = election(newLeases())
				}
				s := newStage(t, cfg)
				s.part.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(drain); return nil }
				var lasted time.Duration
				s.hook = func(ctx context.Context) error {
					began := time.Now()
					<-ctx.Done()
					lasted = time.Since(began)
					return context.Cause(ctx)
				}
				r := looptest.Start(t, s.manager.Run)
				synctest.Wait()
				err := r.Stop()
				if !elected || drain < 20*time.Second {
					require.ErrorIs(t, err, manager.ErrStopTimeout)
					assert.Equal(t, left, lasted)
				} else { // the lease is not kept for longer
					require.ErrorIs(t, err, leaderelect.ErrDrainTimeout)
					assert.Equal(t, time.Second, lasted)
				}
				assert.NotContains(t, err.Error(), "has not returned")
			})
		}
	}
}

func TestLeaderDrainTimeoutDefaultsToStopTimeout(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: 63 * time.Second, 7 * time.Second: 7 * time.Second} {
		bubble(t, own.String(), func(t *testing.T) {
			cfg := election(newLeases())
			cfg.DrainTimeout = own
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
			s := newStage(t, manager.Config{Election: cfg})
			var ended time.Time
			s.part.run = func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				assert.True(t, ok)
				<-l.Context().Done()
				ended = time.Now()
				assert.ErrorIs(t, l.Err(), leaderelect.ErrDrainTimeout)
				return nil
			}
			r := looptest.Start(t, s.manager.Run)
			synctest.Wait()
			began := time.Now()
			_ = r.Stop() // at 63 s it is too late, or just in time
			synctest.Wait()
			assert.Equal(t, want, ended.Sub(began))
		})
	}
}

func TestZeroManagerPanicsOnRun(t *testing.T) {
	var m manager.Manager
	assert.PanicsWithValue(t, "manager: Run called on a Manager that New has not made", func() { _ = m.Run(t.Context()) })
	require.NoError(t, m.Check())
	require.Error(t, m.Ready())
}
