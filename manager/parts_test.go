package manager_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/leaderelect/shard"
	"github.com/setpoint-go/setpoint/manager"
)

func TestInformerAddedLaterSyncsBeforeLaterController(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		s.start(t)
		assert.Equal(t, started, s.events.Take())

		require.NoError(t, s.manager.Add(newFakePart("before", s.events)))
		late := newFakeInformer("late", s.events)
		late.hold = true
		require.NoError(t, s.manager.Add(late))
		require.NoError(t, s.manager.Add(newFakePart("after", s.events)))
		require.NoError(t, s.manager.Add(manager.At(manager.Always, newFakePart("after, everywhere", s.events))))
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"before starts", "late starts"}, s.events.Take())
		s.manager.CheckInvariants(t)
		assert.Equal(t, manager.PartStats{
			Kind: "informer", Name: "late", State: "syncing", Since: time.Now().Add(-time.Minute), Value: late,
		}, s.manager.Stats().Parts[3])
		assert.Equal(t, "waiting", s.manager.Stats().Parts[4].State)

		close(late.synced)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"after starts", "after, everywhere starts"}, s.events.Take())
		assert.Equal(t, "running", s.manager.Stats().Parts[3].State)
		assert.Equal(t, "running", s.manager.Stats().Parts[4].State)
		s.manager.CheckInvariants(t)
	})
}

func TestStatsIncludeParts(t *testing.T) {
	events := &looptest.Log[string]{}
	informer := newFakeInformer("informer", events)
	part := newFakePart("part", events, informer)
	m := must(manager.New(manager.Config{Election: election(memlease.New())}, manager.At(manager.Always, manager.At(manager.Leading, part))))
	parts := m.Stats().Parts
	require.Len(t, parts, 3)
	assert.Same(t, informer, parts[0].Value)
	assert.Same(t, part, parts[1].Value, "without its stage")
	assert.Same(t, m.Elector(), parts[2].Value)

	m = must(manager.New(manager.Config{Shards: &shard.Config{Lease: leaderelect.Config{Store: memlease.New(), Key: "k"}}}))
	assert.Same(t, m.Slots(), m.Stats().Parts[0].Value)
}

func TestEveryReplicaControllerRunsInStandbyAndAllTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		s := newStage(t, manager.Config{Election: election(store)})
		require.NoError(t, s.manager.Add(manager.At(manager.Always, newFakePart("everywhere", s.events))))
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"informer starts", "everywhere starts"}, s.events.Take())
		assert.Equal(t, "standby", s.manager.Stats().State)

		require.NoError(t, s.manager.Add(newFakePart("other", s.events)))
		require.NoError(t, s.manager.Add(manager.At(manager.Always, newFakePart("everywhere too", s.events))))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"everywhere too starts"}, s.events.Take(), "the other waits for a term")
		s.manager.CheckInvariants(t)

		other.Stop()
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"part starts", "other starts"}, s.events.Take())
		assert.Equal(t, "leading", s.manager.Stats().State)
		cut(store, true)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"part stops", "other stops"}, s.events.Take())
		assert.Equal(t, "standby", s.manager.Stats().State)
		cut(store, false)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"part starts", "other starts"}, s.events.Take())

		require.NoError(t, r.Stop())
		events := s.events.Take()
		assert.ElementsMatch(t, []string{
			"part drained", "part stops", "other drained", "other stops",
			"everywhere drained", "everywhere stops", "everywhere too drained", "everywhere too stops",
		}, events[:8])
		assert.Equal(t, []string{"hook", "informer stops"}, events[8:])
		assert.Equal(t, "ended", s.manager.Stats().State)
	})
}

func TestRemoveDrainsOnlyThatController(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		c, reports := reporting(t, controller.Config[string]{DrainOnStop: true}, slow)
		require.NoError(t, s.manager.Add(c))
		r := s.start(t)
		assert.Equal(t, started, s.events.Take())
		for _, key := range []string{"a", "b", "c"} {
			c.Add(key)
		}
		require.NoError(t, s.manager.Remove(t.Context(), "test"))
		assert.Equal(t, []string{"a", "b", "c"}, keysOf(reports.Take()))
		assert.False(t, c.Stats().Running)
		require.ErrorIs(t, s.manager.Remove(t.Context(), "test"), manager.ErrNoPart)
		s.manager.CheckInvariants(t)
		time.Sleep(time.Minute)
		assert.Empty(t, s.events.Take())

		c.Add("d")
		require.NoError(t, s.manager.Add(c), "it may come back")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"d"}, keysOf(reports.Take()))
		require.NoError(t, r.Stop())
		assert.Equal(t, stopped, s.events.Take())
	})
}

func TestRemoveReturnsPartError(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		failing := func(ctx context.Context) error { <-ctx.Done(); return errBoom }
		s.part.run, s.informer.run = failing, failing
		r := s.start(t)
		require.EqualError(t, s.manager.Remove(t.Context(), "part"), `manager: remove "part": boom`)
		require.EqualError(t, s.manager.Remove(t.Context(), "informer"), `manager: remove "informer": boom`)
		assert.False(t, r.Ended())
		require.NoError(t, r.Stop())
	})
}

func TestRemoveEndsWithItsContext(t *testing.T) {
	for _, failing := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var logged bytes.Buffer
			cfg := manager.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
			m, err := manager.New(cfg)
			require.NoError(t, err)
			events := &looptest.Log[string]{}
			stuck := newFakePart("stuck", events)
			stuck.run = func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Hour)
				if failing {
					return errBoom
				}
				return nil
			}
			require.NoError(t, m.Add(stuck))
			r := looptest.Start(t, m.Run)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = m.Remove(ctx, "stuck")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.EqualError(t, err, `manager: remove "stuck": part "stuck" has not ended yet: context deadline exceeded`)
			m.CheckInvariants(t)
			assert.Equal(t, "stopping", m.Stats().Parts[0].State)
			require.ErrorIs(t, m.Add(newFakePart("stuck", events)), manager.ErrExists, "it has not ended")
			require.ErrorIs(t, m.Remove(ctx, "stuck"), context.DeadlineExceeded, "another one may try")

			time.Sleep(time.Hour)
			synctest.Wait()
			assert.Empty(t, m.Stats().Parts, "the removal has continued")
			assert.Equal(t, failing, bytes.Contains(logged.Bytes(), []byte("error=boom")), "no other caller gets the error")
			events.Take()
			require.NoError(t, m.Add(newFakePart("stuck", events)))
			synctest.Wait()
			assert.Equal(t, []string{"stuck starts"}, events.Take())
			require.NoError(t, r.Stop())
		})
	}
}

func TestPartRemovedBeforeItsStageNeverRuns(t *testing.T) {
	subStage(t, "before Run", manager.Config{}, func(t *testing.T, s *fakeStage) {
		require.NoError(t, s.manager.Remove(t.Context(), "informer"))
		require.NoError(t, s.manager.Remove(t.Context(), "part"))
		require.ErrorIs(t, s.manager.Remove(t.Context(), "informer"), manager.ErrNoPart)
		s.manager.CheckInvariants(t)
		looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.Empty(t, s.events.Take())
	})
	bubble(t, "in standby", func(t *testing.T) {
		store := memlease.New()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		s := newStage(t, manager.Config{Election: election(store)})
		looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		require.NoError(t, s.manager.Remove(t.Context(), "part"))
		other.Stop()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"informer starts"}, s.events.Take())
		assert.Equal(t, "leading", s.manager.Stats().State)
	})
}

func TestAddFailsWhileManagerStops(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		r := s.start(t)
		r.Cancel()
		synctest.Wait()
		for range 2 { // while it drains, and when it has ended
			require.ErrorIs(t, s.manager.Add(newFakeInformer("late", s.events)), manager.ErrStopped)
			require.ErrorIs(t, s.manager.Add(newFakePart("late", s.events)), manager.ErrStopped)
			require.ErrorIs(t, s.manager.Add(manager.At(manager.Always, newFakePart("late", s.events))), manager.ErrStopped)
			require.NoError(t, r.Stop())
		}
		assert.Equal(t, append(started, stopped...), s.events.Take())
		require.NoError(t, s.manager.Remove(t.Context(), "informer"), "an ended part may be removed")
		assert.Len(t, s.manager.Stats().Parts, 1)
	})
}

func TestAddRejectsDuplicateNamesAtomically(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		m := s.manager
		looptest.Start(t, m.Run)
		synctest.Wait()
		s.events.Take()
		fresh := newFakePart("fresh", s.events)
		for _, err := range []error{
			m.Add(newFakeInformer("informer", s.events)),
			m.Add(fresh, newFakePart("part", s.events)),
			m.Add(fresh, manager.At(manager.Always, newFakePart("part", s.events))),
			m.Add(fresh, manager.At(manager.Outer, fresh)),
			m.Add(newFakePart("reader", s.events, s.informer), manager.At(manager.Always, s.informer)),
		} {
			require.ErrorIs(t, err, manager.ErrExists)
		}
		require.EqualError(t, m.Add(s.informer, newFakePart("part", s.events)), `manager: add informer "informer": part exists already
manager: add part "part": part exists already`)
		synctest.Wait()
		assert.Empty(t, s.events.Take())
		assert.Len(t, m.Stats().Parts, 2)
		m.CheckInvariants(t)

		require.NoError(t, m.Add(newFakeInformer("part", s.events)), "an informer may have the name of a part")
		require.NoError(t, m.Remove(t.Context(), "part"))
		assert.Equal(t, "informer part", fmt.Sprint(m.Stats().Parts[1].Kind, " ", m.Stats().Parts[1].Name), "the part goes first")
		require.NoError(t, m.Remove(t.Context(), "part"))
		require.ErrorIs(t, m.Remove(t.Context(), "part"), manager.ErrNoPart)

		_, err := manager.New(manager.Config{}, fresh, fresh)
		require.EqualError(t, err, `manager: add part "fresh": part exists already`)
	})
}

func TestAddRejectsNilParts(t *testing.T) {
	m := must(manager.New(manager.Config{}))
	var none *fakePart
	nilPart := "manager: Add called with a nil part"
	assert.PanicsWithValue(t, nilPart, func() { _ = m.Add(nil) })
	assert.PanicsWithValue(t, nilPart, func() { _ = m.Add(none) })
	assert.PanicsWithValue(t, nilPart, func() { _, _ = manager.New(manager.Config{}, nil) })
	assert.PanicsWithValue(t, "manager: At called with a nil part", func() { manager.At(manager.Always, nil) })
	for stage, name := range map[manager.Stage]string{manager.Outer - 1: "Stage(-1)", manager.Always + 1: "electing", manager.Leading + 1: "Stage(4)"} {
		assert.PanicsWithValue(t, "manager: At called with "+name, func() { manager.At(stage, newFakePart("a", nil)) })
	}
	assert.PanicsWithValue(t, "manager: Func called with a nil function", func() { manager.Func("a", nil) })
	assert.PanicsWithValue(t, `manager: Informers of "a" called with a nil part`, func() {
		_ = m.Add(&fakePart{name: "a", informers: []controller.Informer{nil}})
	})
}

func TestStagesHaveNames(t *testing.T) {
	assert.Equal(t, "outer always leading Stage(7)", fmt.Sprint(manager.Outer, manager.Always, manager.Leading, manager.Stage(7)))
}
