package manager_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/setpoint-go/setpoint/wait"
)

// stuck returns a Run that ignores the end of its context, until release is called.
func stuck(t *testing.T) (run func(context.Context) error, release func()) {
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release) // it is not to be left in the bubble
	return func(context.Context) error { <-released; return nil }, release
}

func TestPartIgnoringItsContextDoesNotBlockManagerForever(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		run, release := stuck(t)
		s.part.run = run
		require.NoError(t, s.manager.Add(manager.At(manager.Always, &fakePart{name: "everywhere", events: &looptest.Log[string]{}, run: run})))
		require.NoError(t, s.manager.Add(newFakePart("good", s.events)))
		r := s.start(t)
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

		release()
		synctest.Wait()
		assert.Equal(t, "waiting", s.manager.Stats().Parts[1].State)
		s.manager.CheckInvariants(t)
	})
}

func TestLeaseIsKeptWhileAbandonedPartRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		var overruns atomic.Int64
		cfg := election(store)
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overruns.Add(1) }
		s := newStage(t, manager.Config{Election: cfg, StopTimeout: 10 * time.Second})
		run, release := stuck(t)
		s.part.run = run
		r := s.start(t)
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
		release()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
}

func TestPartsThatNeverReturnAreNamed(t *testing.T) {
	const limit = `: it has not returned: not stopped in time: `
	subStage(t, "an informer", manager.Config{Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
		run, _ := stuck(t)
		s.informer.run = run
		r := s.start(t)
		require.EqualError(t, r.Stop(), `manager: run informer "informer"`+limit+`1m3s have passed`)
		assert.Equal(t, []string{"part starts", "part drained", "part stops", "hook"}, s.events.Take()[1:])
	})
	subStage(t, "an informer that has not synced", manager.Config{}, func(t *testing.T, s *fakeStage) {
		run, _ := stuck(t)
		s.informer.hold, s.informer.run = true, run
		r := s.start(t)
		require.EqualError(t, r.Stop(), `manager: run informer "informer"`+limit+`1m3s have passed`)
	})
	bubble(t, "BeforeRelease", func(t *testing.T) {
		store := &leases{Store: memlease.New()}
		s := newStage(t, manager.Config{Election: election(store)})
		notes := s.watch(store)
		run, release := stuck(t)
		s.hook = run
		r := s.start(t)
		s.events.Take()
		r.Cancel()
		time.Sleep(time.Minute) // the leader renews its lease while it drains
		notes.Store(true)
		require.EqualError(t, r.Stop(), `manager: call BeforeRelease`+limit+`1m3s have passed`)
		events := s.events.Take()
		assert.Equal(t, []string{"part drained", "part stops"}, events[:2])
		assert.Contains(t, events, "informer stops")
		_, held := s.manager.Elector().Leader()
		assert.True(t, held)
		release()
	})
	bubble(t, "a callback of the election", func(t *testing.T) {
		run, _ := stuck(t)
		cfg := election(memlease.New())
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { _ = run(nil) }
		s := newStage(t, manager.Config{Election: cfg})
		r := s.start(t)
		require.EqualError(t, r.Stop(), `manager: run election "lock"`+limit+`1m6s have passed`)
		assert.Contains(t, s.events.Take(), "informer stops")
	})
	subStage(t, "a part that was removed", manager.Config{}, func(t *testing.T, s *fakeStage) {
		run, release := stuck(t)
		s.part.run = run
		r := s.start(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, s.manager.Remove(ended, "part"), "has not ended yet")
		time.Sleep(time.Hour)
		require.EqualError(t, s.manager.Check(), `manager: check part "part": its context ended 1h0m0s ago, and it has not returned`)
		require.EqualError(t, r.Stop(), `manager: run part "part"`+limit+`1m3s have passed`)
		release()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
	bubble(t, "a part that shares its keys", func(t *testing.T) {
		run, release := stuck(t)
		s := newSharedWork(t, shard.Config{Slots: 1}, func(context.Context, int) { _ = run(nil) })
		<-s.terms[0]
		require.EqualError(t, s.Stop(), `manager: run part "shared"`+limit+`1m3s have passed`)
		assert.Zero(t, s.exits.Load())
		release()
	})
}

func TestStopWithoutTimeoutWaits(t *testing.T) {
	inStage(t, manager.Config{StopTimeout: -1}, func(t *testing.T, s *fakeStage) {
		run, release := stuck(t)
		s.part.run = run
		r := s.start(t)
		r.Cancel()
		time.Sleep(24 * time.Hour)
		assert.False(t, r.Ended())
		release()
		require.NoError(t, r.Stop())
		assert.Contains(t, s.events.Take(), "hook")
	})
	inStage(t, manager.Config{StopTimeout: -1}, func(t *testing.T, s *fakeStage) {
		s.hook = func(ctx context.Context) error { return wait.Sleep(ctx, 24*time.Hour) }
		r := s.start(t)
		began := time.Now()
		require.NoError(t, r.Stop(), "nor does the context of BeforeRelease end")
		assert.GreaterOrEqual(t, time.Since(began), 24*time.Hour)
	})
}

// A leader that drained for longer than the default of an elector, 30 s, would lose its lease, and the process would end.
func TestStopOfLeaderWithoutTimeoutWaits(t *testing.T) {
	for what, timeout := range map[string]time.Duration{"none": -1, "the longest": math.MaxInt64} {
		subStage(t, what, manager.Config{StopTimeout: timeout, Election: election(memlease.New())}, func(t *testing.T, s *fakeStage) {
			s.part.run = func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				assert.True(t, ok)
				<-ctx.Done()
				time.Sleep(2 * time.Hour)
				assert.NoError(t, l.Err(), "the leader keeps the lease while it drains")
				return nil
			}
			s.hook = func(context.Context) error { return nil }
			r := s.start(t)
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
					cfg.Election = election(memlease.New())
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
				r := s.start(t)
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
			cfg := election(memlease.New())
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
			r := s.start(t)
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
