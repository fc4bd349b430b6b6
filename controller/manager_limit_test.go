package controller_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
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

func TestAControllerThatIgnoresItsContextDoesNotHoldUpTheManagerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		run, hear := deaf(t)
		s.controller.run = run
		require.NoError(t, s.manager.AddToEveryReplica(&fakeRunner{name: "everywhere", events: &log[string]{}, run: run}))
		require.NoError(t, s.manager.AddController(newRunner("good", s.events)))
		r := start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		began := time.Now()
		err := r.stop()
		assert.Equal(t, 63*time.Second, time.Since(began))
		require.ErrorIs(t, err, controller.ErrStopTimeout)
		require.EqualError(t, err, `controller: manage controller "controller": it has not returned: controller: not stopped in time: 1m3s have passed
controller: manage controller "everywhere": it has not returned: controller: not stopped in time: 1m3s have passed`)
		assert.Equal(t, []string{"good drained", "good stops", "source stops"}, s.events.take(), "no stop hook: the controllers have not ended")
		s.manager.CheckInvariants(t)
		assert.Equal(t, controller.PartStopping, s.manager.Stats().Parts[1].State)
		assert.Equal(t, began, s.manager.Stats().Parts[1].Since)

		hear()
		synctest.Wait()
		assert.Equal(t, controller.PartWaiting, s.manager.Stats().Parts[1].State)
		s.manager.CheckInvariants(t)
	})
}

func TestALeaseIsNotReleasedWhileAControllerThatWasLeftBehindGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		var overruns atomic.Int64
		cfg := election(store)
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) { overruns.Add(1) }
		s := newStage(t, controller.ManagerConfig{Election: cfg, StopTimeout: 10 * time.Second})
		run, hear := deaf(t)
		s.controller.run = run
		r := start(t, s.manager.Run)
		synctest.Wait()
		other := newStage(t, controller.ManagerConfig{Election: election(store)})
		start(t, other.manager.Run)
		s.events.take()
		began := time.Now()
		require.EqualError(t, r.stop(),
			`controller: manage controller "controller": it has not returned: controller: not stopped in time: 13s have passed`)
		assert.LessOrEqual(t, time.Since(began), 20*time.Second)
		assert.Equal(t, []string{"source stops"}, s.events.take())
		assert.Equal(t, []string{"source starts"}, other.events.take(), "the lease is held")
		assert.Zero(t, overruns.Load())

		time.Sleep(time.Minute) // nobody renews the lease any more
		assert.Equal(t, []string{"controller starts"}, other.events.take())
		assert.EqualValues(t, 1, overruns.Load())
		require.ErrorContains(t, s.manager.Check(), `controller: check controller "controller": `)
		hear()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
}

func TestWhatDoesNotReturnInTheEndIsNamed(t *testing.T) {
	const limit = `: it has not returned: controller: not stopped in time: `
	bubble(t, "a source", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		run, _ := deaf(t)
		s.source.run = run
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage source "source"`+limit+`1m3s have passed`)
		assert.Equal(t, []string{"controller starts", "controller drained", "controller stops", "hook"}, s.events.take()[1:])
	})
	bubble(t, "a source that has not synced", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		run, _ := deaf(t)
		s.source.hold, s.source.run = true, run
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage source "source"`+limit+`1m3s have passed`)
	})
	bubble(t, "a stop hook", func(t *testing.T) {
		store := &watchedLeases{leases: newLeases()}
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		store.events = s.events
		run, hear := deaf(t)
		require.NoError(t, s.manager.AddStopHook("deaf", run))
		r := start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		r.cancel()
		time.Sleep(time.Minute) // the leader renews its lease while it drains
		store.notes.Store(true)
		require.EqualError(t, r.stop(), `controller: manage stop hook "deaf"`+limit+`1m3s have passed`)
		events := s.events.take()
		assert.Equal(t, []string{"controller drained", "controller stops"}, events[:2])
		assert.NotContains(t, events, "hook", "those after it are not called")
		assert.Contains(t, events, "source stops")
		_, held := s.manager.Elector().Leader()
		assert.True(t, held)
		hear()
	})
	bubble(t, "a callback of the election", func(t *testing.T) {
		run, _ := deaf(t)
		cfg := election(newLeases())
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { _ = run(nil) }
		s := newStage(t, controller.ManagerConfig{Election: cfg})
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage election "lock"`+limit+`1m6s have passed`)
		assert.Contains(t, s.events.take(), "source stops")
	})
	bubble(t, "a controller that was removed", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		run, hear := deaf(t)
		s.controller.run = run
		r := start(t, s.manager.Run)
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorContains(t, s.manager.RemoveController(ended, "controller"), "it has not ended yet")
		time.Sleep(time.Hour)
		require.EqualError(t, s.manager.Check(), `controller: check controller "controller": it was told to end 1h0m0s ago, and has not returned`)
		require.EqualError(t, r.stop(), `controller: manage controller "controller"`+limit+`1m3s have passed`)
		hear()
		synctest.Wait()
		require.NoError(t, s.manager.Check())
	})
	bubble(t, "OnFailure", func(t *testing.T) {
		run, _ := deaf(t)
		s := newStage(t, controller.ManagerConfig{OnFailure: func(controller.PartFailure) controller.Reaction {
			return controller.RestartAfter(time.Duration(len(errText(run(nil)))))
		}})
		s.controller.run = func(context.Context) error { return errBoom }
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage controller "controller"`+limit+`1m3s have passed`)
	})
	bubble(t, "a controller that shares its keys", func(t *testing.T) {
		var overruns atomic.Int64
		lease := *election(newLeases())
		lease.OnStepDownOverrun = func(*leaderelect.Leadership) { overruns.Add(1) }
		m, err := controller.NewManager(controller.ManagerConfig{Slots: &leaderelect.SlotsConfig{Lease: lease, Slots: 1}, Logger: quiet})
		require.NoError(t, err)
		run, _ := deaf(t)
		sharded := &sharing{fakeRunner: fakeRunner{name: "sharded", events: &log[string]{}, run: func(ctx context.Context) error {
			_, done, ok := m.Slots().Begin(ctx, "key")
			assert.True(t, ok)
			defer done()
			return run(ctx)
		}}}
		sharded.owned = make(chan struct{})
		require.NoError(t, m.AddController(sharded))
		r := start(t, m.Run)
		synctest.Wait()
		require.EqualError(t, r.stop(), `controller: manage controller "sharded"`+limit+`1m3s have passed`)
		assert.Zero(t, overruns.Load())
	})
}

// sharing is a controller that shares its keys and runs when it owns a slot.
type sharing struct {
	fakeRunner
	owned chan struct{}
}

func (s *sharing) Acquired(int) { close(s.owned) }

func (s *sharing) Run(ctx context.Context) error {
	<-s.owned
	return s.fakeRunner.Run(ctx)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAStopWithoutALimitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{StopTimeout: -1})
		run, hear := deaf(t)
		s.controller.run = run
		r := start(t, s.manager.Run)
		synctest.Wait()
		r.cancel()
		time.Sleep(24 * time.Hour)
		assert.False(t, r.ended())
		hear()
		require.NoError(t, r.stop())
		assert.Contains(t, s.events.take(), "hook")
	})
}

// The limit counts from the beginning of the stop, but a hook that begins late has a moment.
func TestTheContextOfTheStopHooksEndsWhenTheStopHasLastedTooLong(t *testing.T) {
	for drain, left := range map[time.Duration]time.Duration{
		5 * time.Second: 15 * time.Second, 19 * time.Second: 3 * time.Second, 22 * time.Second: 3 * time.Second,
	} {
		for _, elected := range []bool{false, true} {
			bubble(t, drain.String(), func(t *testing.T) {
				cfg := controller.ManagerConfig{StopTimeout: 20 * time.Second}
				if elected {
					cfg.Election = election(newLeases())
				}
				s := newStage(t, cfg)
				s.controller.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(drain); return nil }
				var lasted time.Duration
				s.hook = func(ctx context.Context) error {
					began := time.Now()
					<-ctx.Done()
					lasted = time.Since(began)
					return context.Cause(ctx)
				}
				r := start(t, s.manager.Run)
				synctest.Wait()
				err := r.stop()
				if !elected || drain < 20*time.Second {
					require.ErrorIs(t, err, controller.ErrStopTimeout)
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

func TestALeaderDrainsForAsLongAsTheStopMayTakeUnlessItSaysOtherwise(t *testing.T) {
	for own, want := range map[time.Duration]time.Duration{0: 63 * time.Second, 7 * time.Second: 7 * time.Second} {
		bubble(t, own.String(), func(t *testing.T) {
			cfg := election(newLeases())
			cfg.DrainTimeout = own
			cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
			s := newStage(t, controller.ManagerConfig{Election: cfg})
			var ended time.Time
			s.controller.run = func(ctx context.Context) error {
				l, ok := leaderelect.FromContext(ctx)
				assert.True(t, ok)
				<-l.Context().Done()
				ended = time.Now()
				assert.ErrorIs(t, l.Err(), leaderelect.ErrDrainTimeout)
				return nil
			}
			r := start(t, s.manager.Run)
			synctest.Wait()
			began := time.Now()
			_ = r.stop() // at 63 s it is too late, or just in time
			synctest.Wait()
			assert.Equal(t, want, ended.Sub(began))
		})
	}
}

func TestAManagerEndsTheProcessWhenAControllerGoesOnAlthoughAnotherMayLead(t *testing.T) {
	for _, slots := range []bool{false, true} {
		bubble(t, map[bool]string{false: "election", true: "slots"}[slots], func(t *testing.T) {
			store, out := newLeases(), &logText{}
			lease := *election(store)
			cfg := controller.ManagerConfig{Logger: textLogger(out)}
			if slots {
				cfg.Slots = &leaderelect.SlotsConfig{Lease: lease, Slots: 1}
			} else {
				cfg.Election = &lease
			}
			m, err := controller.NewManager(cfg)
			require.NoError(t, err)
			var exits atomic.Int64
			m.SetExit(func(*leaderelect.Leadership) { exits.Add(1) })
			run, hear := deaf(t)
			c := &sharing{fakeRunner: fakeRunner{name: "deaf", events: &log[string]{}}, owned: make(chan struct{})}
			c.run = func(ctx context.Context) error {
				if slots {
					_, done, ok := m.Slots().Begin(ctx, "key")
					assert.True(t, ok)
					defer done()
				}
				return run(ctx)
			}
			if !slots {
				close(c.owned)
			}
			require.NoError(t, m.AddController(c))
			require.NoError(t, m.AddToEveryReplica(newRunner("innocent", &log[string]{})))
			r := start(t, m.Run)
			synctest.Wait()
			store.cut.Store(true)
			time.Sleep(12 * time.Second)
			assert.Zero(t, exits.Load())
			time.Sleep(2 * time.Second)
			assert.EqualValues(t, 1, exits.Load())
			assert.Contains(t, out.String(), "another may lead")
			if !slots {
				assert.Contains(t, out.String(), "[deaf]")
				assert.NotContains(t, out.String(), "innocent")
			}
			assert.Nil(t, lease.OnStepDownOverrun)
			hear()
			_ = r.stop()
		})
	}
}

// As after a suspend: the controllers were told to end only now.
func TestControllersThatWereJustToldToEndHaveAMomentBeforeTheProcessEnds(t *testing.T) {
	for lasts, ends := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true} {
		bubble(t, lasts.String(), func(t *testing.T) {
			store := newLeases()
			s := newStage(t, controller.ManagerConfig{Election: election(store)})
			var exits atomic.Int64
			s.manager.SetExit(func(*leaderelect.Leadership) { exits.Add(1) })
			leadership := make(chan *leaderelect.Leadership, 1)
			s.controller.run = func(ctx context.Context) error {
				l, _ := leaderelect.FromContext(ctx)
				leadership <- l
				<-ctx.Done()
				time.Sleep(lasts)
				return nil
			}
			r := start(t, s.manager.Run)
			l := <-leadership
			store.cut.Store(true)
			<-l.Context().Done()
			synctest.Wait()
			began := time.Now()
			s.manager.Overrun(l)
			assert.Equal(t, min(lasts, time.Second), time.Since(began))
			assert.Equal(t, ends, exits.Load() == 1)
			_ = r.stop()
		})
	}
}

// As after a suspend, when the controllers have ended before the manager looks.
func TestTheProcessDoesNotEndWhenNoControllerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		var exits atomic.Int64
		s.manager.SetExit(func(*leaderelect.Leadership) { exits.Add(1) })
		leadership := make(chan *leaderelect.Leadership, 1)
		s.controller.run = func(ctx context.Context) error {
			l, _ := leaderelect.FromContext(ctx)
			leadership <- l
			<-ctx.Done()
			return nil
		}
		r := start(t, s.manager.Run)
		l := <-leadership
		store.cut.Store(true)
		<-l.Context().Done()
		synctest.Wait()
		s.manager.Overrun(l)
		assert.Zero(t, exits.Load())
		_ = r.stop()
	})
}

func TestTheProcessEndsWhenOnStoppedLeadingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, release := newLeases(), make(chan struct{})
		cfg := election(store)
		cfg.OnStoppedLeading = func(*leaderelect.Leadership, error) { <-release }
		s := newStage(t, controller.ManagerConfig{Election: cfg})
		var exits atomic.Int64
		s.manager.SetExit(func(*leaderelect.Leadership) { exits.Add(1) })
		s.controller.run = func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}
		r := start(t, s.manager.Run)
		time.Sleep(time.Second)
		store.cut.Store(true)
		time.Sleep(time.Minute) // the lease is lost, the controller has ended, the callback has not returned
		assert.EqualValues(t, 1, exits.Load())
		close(release)
		_ = r.stop()
	})
}

func TestAZeroManagerPanicsAtItsRun(t *testing.T) {
	var m controller.Manager
	assert.PanicsWithValue(t, "controller: Run called on a Manager that NewManager has not made", func() { _ = m.Run(t.Context()) })
	require.NoError(t, m.Check())
	require.Error(t, m.Ready())
}
