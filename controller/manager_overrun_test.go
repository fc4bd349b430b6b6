package controller_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sharedWork is a manager with slots, whose only controller works on one key of each slot.
type sharedWork struct {
	fakeRunner
	*running
	store   *leases
	manager *controller.Manager
	exits   atomic.Int64
	slots   chan int                             // that were acquired and have no work yet
	terms   map[int]chan *leaderelect.Leadership // of the work that has begun, by slot
}

func (s *sharedWork) Acquired(slot int) { s.slots <- slot }

// newSharedWork returns a manager that runs. In each slot, work is called as soon as the slot was acquired.
func newSharedWork(t *testing.T, cfg leaderelect.SlotsConfig, work func(ctx context.Context, slot int)) *sharedWork {
	t.Helper()
	s := &sharedWork{store: newLeases(), slots: make(chan int, cfg.Slots), terms: map[int]chan *leaderelect.Leadership{}}
	keys := map[int]string{}
	cfg.Lease.Store, cfg.Lease.Key, cfg.Lease.Logger = s.store, "lock", quiet
	var err error
	s.manager, err = controller.NewManager(controller.ManagerConfig{Slots: &cfg, Logger: quiet})
	require.NoError(t, err)
	s.manager.SetExit(func(*leaderelect.Leadership) { s.exits.Add(1) })
	for key := 'a'; len(keys) < cfg.Slots; key++ {
		keys[s.manager.Slots().Slot(string(key))] = string(key)
	}
	for slot := range keys {
		s.terms[slot] = make(chan *leaderelect.Leadership, 1)
	}
	s.fakeRunner = fakeRunner{name: "shared", events: &log[string]{}, run: func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case slot := <-s.slots:
				ctx, done, ok := s.manager.Slots().Begin(ctx, keys[slot])
				assert.True(t, ok)
				l, _ := leaderelect.FromContext(ctx)
				s.terms[slot] <- l
				go func() {
					defer done()
					work(ctx, slot)
				}()
			}
		}
	}}
	require.NoError(t, s.manager.AddController(s))
	s.running = start(t, s.manager.Run)
	return s
}

// lose takes the leases of the given leaderships away. It returns when their work was told to end.
func (s *sharedWork) lose(leaderships ...*leaderelect.Leadership) {
	s.store.cut.Store(true)
	for _, l := range leaderships {
		<-l.Context().Done()
	}
	synctest.Wait()
}

// overrun has the manager look for work that goes on, and returns how long that takes.
func (s *sharedWork) overrun(l *leaderelect.Leadership) time.Duration {
	began := time.Now()
	s.manager.Overrun(l)
	return time.Since(began)
}

// As after a suspend: the work was told to end only now.
func TestWorkInASlotThatWasJustToldToEndHasAMomentBeforeTheProcessEnds(t *testing.T) {
	for lasts, ends := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true} {
		bubble(t, lasts.String(), func(t *testing.T) {
			s := newSharedWork(t, leaderelect.SlotsConfig{Slots: 1}, func(ctx context.Context, _ int) {
				<-ctx.Done()
				time.Sleep(lasts)
			})
			l := <-s.terms[0]
			s.lose(l)
			assert.Equal(t, min(lasts, time.Second), s.overrun(l))
			assert.Equal(t, ends, s.exits.Load() == 1)
			require.NoError(t, s.stop())
		})
	}
}

func TestWorkInASlotHasAMomentAlthoughTheTimeToStepDownIsShorter(t *testing.T) {
	for lasts, exits := range map[time.Duration]int64{900 * time.Millisecond: 0, 1100 * time.Millisecond: 1} {
		bubble(t, lasts.String(), func(t *testing.T) {
			cfg := leaderelect.SlotsConfig{Slots: 2}
			cfg.Lease.StepDownTimeout = 100 * time.Millisecond
			s := newSharedWork(t, cfg, func(ctx context.Context, slot int) {
				<-ctx.Done()
				if slot == 1 {
					time.Sleep(lasts)
				}
			})
			s.lose(<-s.terms[0], <-s.terms[1])
			time.Sleep(5 * time.Second)
			assert.Equal(t, exits, s.exits.Load())
			require.NoError(t, s.stop())
		})
	}
}

func TestTheMomentOfWorkInASlotBeginsWhenItIsToldToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, hear := deaf(t)
		s := newSharedWork(t, leaderelect.SlotsConfig{Slots: 1}, func(ctx context.Context, _ int) { _ = run(ctx) })
		l := <-s.terms[0]
		s.lose(l)
		time.Sleep(600 * time.Millisecond)
		assert.Equal(t, 400*time.Millisecond, s.overrun(l))
		assert.EqualValues(t, 1, s.exits.Load())
		time.Sleep(time.Second)
		assert.Zero(t, s.overrun(l))
		assert.EqualValues(t, 2, s.exits.Load())
		hear()
		require.NoError(t, s.stop())
	})
}

// As after a suspend, when the work has ended before the manager looks.
func TestTheProcessDoesNotEndWhenNoWorkInTheSlotGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, hear := deaf(t)
		var revoked atomic.Int64
		cfg := leaderelect.SlotsConfig{Slots: 2, OnRevoked: func(slot int, cause error) {
			assert.ErrorIs(t, cause, leaderelect.ErrLeaseExpired)
			revoked.Add(int64(slot) + 1)
		}}
		s := newSharedWork(t, cfg, func(ctx context.Context, slot int) {
			<-ctx.Done()
			if slot == 1 {
				_ = run(ctx)
			}
		})
		ended, goesOn := <-s.terms[0], <-s.terms[1]
		s.lose(ended, goesOn)
		assert.EqualValues(t, 1, revoked.Load(), "OnRevoked of the program is called")
		assert.Zero(t, s.overrun(ended))
		assert.Zero(t, s.exits.Load(), "the work in the other slot is its own matter")
		s.overrun(goesOn)
		assert.EqualValues(t, 1, s.exits.Load())
		hear()
		require.NoError(t, s.stop())
		assert.EqualValues(t, 1+2, revoked.Load())
	})
}

// Its OnRevoked is all that is left of a slot, and it may act on the world.
func TestTheProcessEndsWhenOnRevokedGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, hear := deaf(t)
		cfg := leaderelect.SlotsConfig{Slots: 1, OnRevoked: func(int, error) { _ = run(nil) }}
		s := newSharedWork(t, cfg, func(ctx context.Context, _ int) { <-ctx.Done() })
		l := <-s.terms[0]
		s.lose(l)
		assert.Equal(t, time.Second, s.overrun(l))
		assert.EqualValues(t, 1, s.exits.Load())
		hear()
		require.NoError(t, s.stop())
	})
}

// The process is suspended, or busy, between the acquisition and the first call.
func TestNoWorkBeginsInASlotThatIsLostBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, hear := deaf(t)
		cfg := leaderelect.SlotsConfig{Slots: 1, OnAcquired: func(context.Context, int) error {
			t.Error("OnAcquired is called in a slot that is lost")
			return nil
		}}
		cfg.Lease.Hooks.StartedLeading = func(uint64) { _ = run(nil) }
		s := newSharedWork(t, cfg, func(context.Context, int) {})
		synctest.Wait()
		s.store.cut.Store(true)
		time.Sleep(20 * time.Second)
		assert.Zero(t, s.exits.Load(), "nothing has begun")
		hear()
		synctest.Wait()
		assert.Empty(t, s.slots)
		require.NoError(t, s.stop())
	})
}
