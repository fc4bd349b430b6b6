package manager_test

import (
	"context"
	"errors"
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
)

// checked is a controller whose health is what the test says.
type checked struct {
	*fakePart
	asked atomic.Int64
	sick  atomic.Pointer[error]
	panic atomic.Bool
}

func (c *checked) Check() error {
	c.asked.Add(1)
	if c.panic.Load() {
		panic("sick")
	}
	if err := c.sick.Load(); err != nil {
		return *err
	}
	return nil
}

// checkedInformer is an informer whose health is what the test says.
type checkedInformer struct {
	*fakeInformer
	err error
}

func (c *checkedInformer) Check() error { return c.err }

func TestCheckJoinsErrorsOfRunningParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		s := newStage(t, manager.Config{Election: election(store)})
		c := &checked{fakePart: newFakePart("checked", s.events)}
		c.sick.Store(&errBoom)
		require.NoError(t, s.manager.Add(c))
		silent := &checkedInformer{fakeInformer: newFakeInformer("silent", s.events), err: errors.New("silent for 1h")}
		require.NoError(t, s.manager.Add(silent))
		require.NoError(t, s.manager.Check(), "nothing runs")
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.EqualError(t, s.manager.Check(), `manager: check informer "silent": silent for 1h`)
		assert.Zero(t, c.asked.Load(), "it does not run in a standby")

		other.Stop()
		time.Sleep(time.Minute)
		err := s.manager.Check()
		require.ErrorIs(t, err, errBoom)
		require.EqualError(t, err, "manager: check part \"checked\": boom\nmanager: check informer \"silent\": silent for 1h")
		require.EqualError(t, s.manager.Ready(), err.Error(), "an unhealthy part is not ready")
		c.panic.Store(true)
		require.ErrorContains(t, s.manager.Check(), `manager: check part "checked": panic: sick`)
		c.panic.Store(false)
		c.sick.Store(nil)
		silent.err = nil
		require.NoError(t, s.manager.Check())
		require.NoError(t, s.manager.Ready())

		c.sick.Store(&errBoom)
		r.Cancel()
		synctest.Wait()
		require.ErrorIs(t, s.manager.Check(), errBoom, "it still drains")
		require.NoError(t, r.Stop())
		require.NoError(t, s.manager.Check(), "nothing runs")
	})
}

func TestCheckIgnoresStoppedParts(t *testing.T) {
	inStage(t, manager.Config{Restart: doubling}, func(t *testing.T, s *fakeStage) {
		s.start(t)
		late := newFakeInformer("late", s.events)
		late.hold = true
		require.NoError(t, s.manager.Add(late))
		waits := &checked{fakePart: newFakePart("waits", s.events)}
		waits.sick.Store(&errBoom)
		waits.run = func(context.Context) error { return errBoom }
		require.NoError(t, s.manager.Add(waits))
		synctest.Wait()
		require.NoError(t, s.manager.Check(), "it waits for the informer")
		close(late.synced)
		synctest.Wait()
		assert.Equal(t, "backing off", s.manager.Stats().Parts[3].State)
		require.NoError(t, s.manager.Check(), "it waits for its restart")
		assert.Zero(t, waits.asked.Load())
	})
}

func TestCheckReportsWorkOutlivingItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		cfg := election(store)
		cfg.OnStepDownOverrun = func(*leaderelect.Leadership) {}
		s := newStage(t, manager.Config{Election: cfg})
		s.part.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Hour); return nil }
		r := s.start(t)
		cut(store, true)
		time.Sleep(14 * time.Second)
		require.NoError(t, s.manager.Check())
		time.Sleep(2 * time.Second)
		require.ErrorContains(t, s.manager.Check(), `manager: check election "lock": leaderelect: check "lock": `)
		require.ErrorIs(t, r.Stop(), manager.ErrStopTimeout)
		time.Sleep(time.Hour) // it must not be left in the bubble
	})
}

func TestReadyNamesMissingParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		fail := make(chan error)
		s := newStage(t, manager.Config{Election: election(store), Restart: doubling})
		s.informer.hold = true
		s.part.run = func(ctx context.Context) error {
			select {
			case err := <-fail:
				return err
			case <-ctx.Done():
				return nil
			}
		}
		m := s.manager
		require.EqualError(t, m.Ready(), "manager: not ready: the manager is new")
		r := looptest.Start(t, m.Run)
		synctest.Wait()
		require.EqualError(t, m.Ready(), "manager: not ready: the manager is syncing\nmanager: not ready: informer \"informer\" has not synced")
		require.NoError(t, m.Check(), "it is alive")
		close(s.informer.synced)
		time.Sleep(time.Minute)
		require.NoError(t, m.Ready(), "a standby is ready")
		assert.Equal(t, "standby", m.Stats().State)

		late := newFakeInformer("late", s.events)
		late.hold = true
		require.NoError(t, m.Add(late))
		synctest.Wait()
		require.NoError(t, m.Ready(), "a later part does not count until it fails")

		other.Stop()
		time.Sleep(time.Minute)
		require.NoError(t, m.Ready())
		fail <- errBoom
		synctest.Wait()
		require.EqualError(t, m.Ready(), `manager: not ready: part "part" has failed: boom`)
		require.NoError(t, m.Check())
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, m.Ready(), "it runs again")
		assert.ErrorIs(t, m.Stats().Parts[1].Err, errBoom)

		r.Cancel()
		require.EqualError(t, m.Ready(), "manager: not ready: the manager is stopping")
		require.NoError(t, r.Stop())
		require.EqualError(t, m.Ready(), "manager: not ready: the manager is ended")
	})
}

func TestResigningLeaderDrainsAndCallsBeforeRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{Store: memlease.New()}
		s := newStage(t, manager.Config{Election: election(store)})
		notes := s.watch(store)
		s.hook = func(ctx context.Context) error {
			l, ok := leaderelect.FromContext(ctx)
			assert.True(t, ok && l.Err() == nil, "still the leader")
			notes.Store(true)
			return nil
		}
		require.NoError(t, s.manager.Add(manager.At(manager.Always, newFakePart("everywhere", s.events))))
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"informer starts", "everywhere starts", "part starts"}, s.events.Take())
		require.NoError(t, s.manager.Elector().Resign(t.Context(), time.Hour))
		synctest.Wait()
		assert.Equal(t, []string{"part drained", "part stops", "hook", "lease is written"}, s.events.Take())
		assert.Equal(t, "standby", s.manager.Stats().State)
		require.NoError(t, s.manager.Ready())
		notes.Store(false)
		time.Sleep(2 * time.Hour)
		assert.Equal(t, []string{"part starts"}, s.events.Take(), "it leads again")
		s.manager.CheckInvariants(t)
		require.NoError(t, r.Stop())
	})
}

func TestFailedBeforeReleaseOfResigningLeaderStopsEverything(t *testing.T) {
	inStage(t, manager.Config{Election: election(memlease.New()), StopTimeout: 20 * time.Second}, func(t *testing.T, s *fakeStage) {
		s.hook = func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, 20*time.Second, time.Until(deadline), "the drain does not count, because nothing stops")
			return errBoom
		}
		r := looptest.Start(t, s.manager.Run)
		assert.Zero(t, s.manager.Stats().Parts[1].Since, "its stage has not begun")
		time.Sleep(time.Minute)
		assert.NotZero(t, s.manager.Stats().Parts[1].Since)
		require.NoError(t, s.manager.Elector().Resign(t.Context(), time.Hour))
		synctest.Wait()
		require.True(t, r.Ended())
		require.EqualError(t, r.Stop(), "manager: call BeforeRelease: boom")
	})
}

func TestReadySaysWhyInformerHasNotSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Fail(errBoom)
		in := must(informer.New(src, src.Key, informer.Config{Name: "sites", Logger: quiet}))
		m := must(manager.New(manager.Config{Logger: quiet}, in))
		r := looptest.Start(t, m.Run)
		synctest.Wait()
		require.EqualError(t, m.Ready(),
			"manager: not ready: the manager is syncing\nmanager: not ready: informer \"sites\" has not synced: "+errBoom.Error())
		src.Fail(nil)
		time.Sleep(time.Minute)
		require.NoError(t, m.Ready())
		require.NoError(t, r.Stop())
	})
}
