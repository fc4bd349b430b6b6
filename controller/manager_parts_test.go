package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func newRunner(name string, events *log[string]) *fakeRunner {
	return &fakeRunner{name: name, events: events}
}

func TestASourceAddedLaterSyncsBeforeAControllerThatIsAddedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.take())

		require.NoError(t, s.manager.AddController(newRunner("before", s.events)))
		late := newFakeSource("late", s.events)
		late.hold = true
		require.NoError(t, s.manager.AddSource(late))
		require.NoError(t, s.manager.AddController(newRunner("after", s.events)))
		require.NoError(t, s.manager.AddToEveryReplica(newRunner("after, everywhere", s.events)))
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"before starts", "late starts"}, s.events.take())
		s.manager.CheckInvariants(t)
		assert.Equal(t, controller.PartStats{
			Kind: controller.PartSource, Name: "late", State: controller.PartSyncing, Since: time.Now().Add(-time.Minute),
		}, s.manager.Stats().Parts[3])
		assert.Equal(t, controller.PartWaiting, s.manager.Stats().Parts[4].State)

		close(late.synced)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"after starts", "after, everywhere starts"}, s.events.take())
		assert.Equal(t, controller.PartRunning, s.manager.Stats().Parts[3].State)
		assert.Equal(t, controller.PartRunning, s.manager.Stats().Parts[4].State)
		s.manager.CheckInvariants(t)
	})
}

func TestAllThatIsAddedBeforeRunWaitsForAllSourcesWhateverTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		last := newFakeSource("last", s.events)
		last.hold = true
		require.NoError(t, s.manager.AddSource(last)) // after the controller
		start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"source starts", "last starts"}, s.events.take())
		close(last.synced)
		synctest.Wait()
		assert.Equal(t, []string{"controller starts"}, s.events.take())
	})
}

func TestAControllerOfEveryReplicaRunsInStandbyAndThroughAllTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		require.NoError(t, s.manager.AddToEveryReplica(newRunner("everywhere", s.events)))
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"source starts", "everywhere starts"}, s.events.take())
		assert.Equal(t, controller.StageStandby, s.manager.Stats().Stage)

		require.NoError(t, s.manager.AddController(newRunner("other", s.events)))
		require.NoError(t, s.manager.AddToEveryReplica(newRunner("everywhere too", s.events)))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"everywhere too starts"}, s.events.take(), "the other waits for a term")
		s.manager.CheckInvariants(t)

		other.stop()
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"controller starts", "other starts"}, s.events.take())
		assert.Equal(t, controller.StageLeading, s.manager.Stats().Stage)
		store.cut.Store(true)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"controller stops", "other stops"}, s.events.take())
		assert.Equal(t, controller.StageStandby, s.manager.Stats().Stage)
		store.cut.Store(false)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"controller starts", "other starts"}, s.events.take())

		require.NoError(t, r.stop())
		events := s.events.take()
		assert.ElementsMatch(t, []string{
			"controller drained", "controller stops", "other drained", "other stops",
			"everywhere drained", "everywhere stops", "everywhere too drained", "everywhere too stops",
		}, events[:8])
		assert.Equal(t, []string{"hook", "source stops"}, events[8:])
		assert.Equal(t, controller.StageEnded, s.manager.Stats().Stage)
	})
}

func TestTheStopHooksWaitForTheControllersOfEveryReplicaAndTheLeaseForTheHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchedLeases{leases: newLeases()}
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		store.events = s.events
		s.hook = func(context.Context) error { store.notes.Store(true); return nil }
		require.NoError(t, s.manager.AddToEveryReplica(&fakeRunner{name: "slow", events: s.events, run: func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(9 * time.Second)
			return nil
		}}))
		r := start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		require.NoError(t, r.stop())
		assert.Equal(t, []string{
			"controller drained", "controller stops", "slow stops", "hook", "lease is written", "source stops",
		}, s.events.take())
	})
}

func TestARemovedControllerIsDrainedAndNothingElseIsTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		c, reports := newController(t, controller.Config[string]{}, slow)
		require.NoError(t, s.manager.AddController(c))
		r := start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, started, s.events.take())
		for _, key := range []string{"a", "b", "c"} {
			c.Add(key)
		}
		require.NoError(t, s.manager.RemoveController(t.Context(), "test"))
		assert.Equal(t, []string{"a", "b", "c"}, keysOf(reports.take()))
		assert.False(t, c.Stats().Running)
		require.ErrorIs(t, s.manager.RemoveController(t.Context(), "test"), controller.ErrNoPart)
		s.manager.CheckInvariants(t)
		time.Sleep(time.Minute)
		assert.Empty(t, s.events.take())

		c.Add("d")
		require.NoError(t, s.manager.AddController(c), "it may come back")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"d"}, keysOf(reports.take()))
		require.NoError(t, r.stop())
		assert.Equal(t, stopped, s.events.take())
	})
}

func TestTheErrorOfARemovedPartGoesToWhoRemovedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		failing := func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		s.controller.run, s.source.run = failing, failing
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.EqualError(t, s.manager.RemoveController(t.Context(), "controller"), `controller: remove controller "controller": boom`)
		require.EqualError(t, s.manager.RemoveSource(t.Context(), "source"), `controller: remove source "source": boom`)
		assert.False(t, r.ended())
		require.NoError(t, r.stop())
	})
}

func TestARemovedPartThatSaysThatItWasToldToEndHasNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		s.controller.run = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s.source.run = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		start(t, s.manager.Run)
		synctest.Wait()
		require.NoError(t, s.manager.RemoveController(t.Context(), "controller"))
		require.NoError(t, s.manager.RemoveSource(t.Context(), "source"))
	})
}

func TestWhoRemovesDoesNotWaitForLongerThanHeWants(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			cfg := controller.ManagerConfig{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
			m, err := controller.NewManager(cfg)
			require.NoError(t, err)
			events := &log[string]{}
			stuck := newRunner("stuck", events)
			stuck.run = func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Hour)
				if failing {
					return errBoom
				}
				return nil
			}
			require.NoError(t, m.AddController(stuck))
			r := start(t, m.Run)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = m.RemoveController(ctx, "stuck")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, `controller: remove controller "stuck": it has not ended yet: context deadline exceeded`)
			m.CheckInvariants(t)
			assert.Equal(t, controller.PartStopping, m.Stats().Parts[0].State)
			require.ErrorIs(t, m.AddController(newRunner("stuck", events)), controller.ErrPartExists, "it has not ended")
			require.ErrorIs(t, m.RemoveController(ctx, "stuck"), context.DeadlineExceeded, "another one may try")

			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Empty(t, m.Stats().Parts, "the removal has gone on")
			assert.Equal(t, failing, bytes.Contains(logged.Bytes(), []byte("error=boom")), "nobody else hears of it")
			events.take()
			require.NoError(t, m.AddController(newRunner("stuck", events)))
			synctest.Wait()
			assert.Equal(t, []string{"stuck starts"}, events.take())
			require.NoError(t, r.stop())
		})
	}
}

func TestSeveralMayWaitForOneRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		s.controller.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return errBoom }
		start(t, s.manager.Run)
		synctest.Wait()
		remove := func(ctx context.Context) error { return s.manager.RemoveController(ctx, "controller") }
		first, second := startIn(t, t.Context(), remove), startIn(t, t.Context(), remove)
		<-first.done
		<-second.done
		require.ErrorIs(t, first.err, errBoom)
		require.ErrorIs(t, second.err, errBoom)
		s.manager.CheckInvariants(t)
	})
}

func TestARemovedSourceIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		s.source.hold = true
		start(t, s.manager.Run)
		synctest.Wait()
		assert.Equal(t, []string{"source starts"}, s.events.take())
		require.NoError(t, s.manager.RemoveSource(t.Context(), "source"))
		synctest.Wait()
		assert.Equal(t, []string{"source stops", "controller starts"}, s.events.take())
		s.manager.CheckInvariants(t)
	})
}

func TestWhatIsRemovedBeforeItsStageNeverRuns(t *testing.T) {
	bubble(t, "before Run", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		require.NoError(t, s.manager.RemoveSource(t.Context(), "source"))
		require.NoError(t, s.manager.RemoveController(t.Context(), "controller"))
		require.ErrorIs(t, s.manager.RemoveSource(t.Context(), "source"), controller.ErrNoPart)
		s.manager.CheckInvariants(t)
		start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Empty(t, s.events.take())
	})
	bubble(t, "while it waits for a source", func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		start(t, s.manager.Run)
		synctest.Wait()
		late := newFakeSource("late", s.events)
		late.hold = true
		require.NoError(t, s.manager.AddSource(late))
		require.NoError(t, s.manager.AddController(newRunner("waits", s.events)))
		synctest.Wait()
		s.events.take()
		require.NoError(t, s.manager.RemoveController(t.Context(), "waits"))
		close(late.synced)
		synctest.Wait()
		assert.Empty(t, s.events.take())
	})
	bubble(t, "in standby", func(t *testing.T) {
		store := newLeases()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		s := newStage(t, controller.ManagerConfig{Election: election(store)})
		start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.NoError(t, s.manager.RemoveController(t.Context(), "controller"))
		other.stop()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"source starts"}, s.events.take())
		assert.Equal(t, controller.StageLeading, s.manager.Stats().Stage)
	})
}

func TestNamesThatClashAreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		m := s.manager
		require.NoError(t, m.AddSource(newFakeSource("controller", s.events)), "a source and a controller may share a name")
		start(t, m.Run)
		synctest.Wait()
		s.events.take()
		for _, err := range []error{
			m.AddSource(newFakeSource("source", s.events)),
			m.AddController(newRunner("controller", s.events)),
			m.AddToEveryReplica(newRunner("controller", s.events)),
			m.AddStopHook("hook", func(context.Context) error { return nil }),
		} {
			require.ErrorIs(t, err, controller.ErrPartExists)
		}
		require.EqualError(t, m.AddSource(s.source), `controller: add source "source": controller: there is one of this name`)
		synctest.Wait()
		assert.Empty(t, s.events.take())
		assert.Len(t, m.Stats().Parts, 3)
	})
}

func TestAnErrorOfAddBeforeRunIsReturnedByRunWhichStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{Election: election(newLeases())})
		first := s.manager.AddSource(s.source)
		second := s.manager.AddStopHook("hook", func(context.Context) error { return nil })
		err := s.manager.Run(t.Context())
		require.ErrorIs(t, err, controller.ErrPartExists)
		require.EqualError(t, err, errors.Join(first, second).Error())
		assert.Empty(t, s.events.take())
		require.ErrorIs(t, s.manager.Run(t.Context()), controller.ErrUsed)
		require.ErrorIs(t, s.manager.AddController(newRunner("late", s.events)), controller.ErrStopped)
		assert.Equal(t, controller.StageEnded, s.manager.Stats().Stage)
	})
}

func TestNothingIsAddedToAManagerThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		r := start(t, s.manager.Run)
		synctest.Wait()
		r.cancel()
		synctest.Wait()
		for range 2 { // while it drains, and when it has ended
			require.ErrorIs(t, s.manager.AddSource(newFakeSource("late", s.events)), controller.ErrStopped)
			require.ErrorIs(t, s.manager.AddController(newRunner("late", s.events)), controller.ErrStopped)
			require.ErrorIs(t, s.manager.AddToEveryReplica(newRunner("late", s.events)), controller.ErrStopped)
			require.ErrorIs(t, s.manager.AddStopHook("late", func(context.Context) error { return nil }), controller.ErrStopped)
			require.NoError(t, r.stop())
		}
		assert.Equal(t, append(started, stopped...), s.events.take())
		require.NoError(t, s.manager.RemoveSource(t.Context(), "source"), "what has ended may be removed")
		assert.Len(t, s.manager.Stats().Parts, 1)
	})
}

func TestAStopHookMayBeAddedWhileTheManagerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, controller.ManagerConfig{})
		r := start(t, s.manager.Run)
		synctest.Wait()
		require.NoError(t, s.manager.AddStopHook("late", func(context.Context) error { s.events.add("late hook"); return nil }))
		s.events.take()
		require.NoError(t, r.stop())
		assert.Equal(t, []string{"controller drained", "controller stops", "late hook", "hook", "source stops"}, s.events.take())
	})
}

func TestNilPartsAreRefusedAtOnce(t *testing.T) {
	m, err := controller.NewManager(controller.ManagerConfig{})
	require.NoError(t, err)
	assert.PanicsWithValue(t, "controller: AddSource called with nil", func() { m.AddSource(nil) })
	assert.PanicsWithValue(t, "controller: a nil controller was added", func() { m.AddController(nil) })
	assert.PanicsWithValue(t, "controller: a nil controller was added", func() { m.AddToEveryReplica(nil) })
	assert.PanicsWithValue(t, "controller: AddStopHook called with nil", func() { m.AddStopHook("hook", nil) })
}
