package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/internal/looptest"
	"github.com/setpoint-go/setpoint/leaderelect/memlease"
	"github.com/setpoint-go/setpoint/manager"
)

func TestSharedInformersRunOnceAndStayWarmInStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		events := &looptest.Log[string]{}
		shared, own := newFakeInformer("shared", events), newFakeInformer("own", events)
		m := must(manager.New(manager.Config{Election: election(store), Logger: quiet},
			newFakePart("a", events, shared), newFakePart("b", events, own, shared, own), manager.At(manager.Outer, own)))
		m.CheckInvariants(t)
		r := looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"shared starts", "own starts"}, events.Take())
		other.Stop()
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"a starts", "b starts"}, events.Take())
		m.CheckInvariants(t)
		var names []string
		for _, p := range m.Stats().Parts {
			names = append(names, p.Kind+" "+p.Name)
		}
		assert.Equal(t, []string{"informer shared", "part a", "informer own", "part b", "election lock"}, names)
		require.NoError(t, r.Stop())
		assert.ElementsMatch(t, []string{"shared stops", "own stops"}, events.Take()[4:], "after the parts have drained")
	})
}

func TestInformerEndsWithLastPartThatNeedsIt(t *testing.T) {
	for _, early := range []bool{false, true} { // before Run
		synctest.Test(t, func(t *testing.T) {
			events := &looptest.Log[string]{}
			shared, own, pinned := newFakeInformer("shared", events), newFakeInformer("own", events), newFakeInformer("pinned", events)
			m := must(manager.New(manager.Config{Logger: quiet},
				newFakePart("a", events, shared, own, pinned), newFakePart("b", events, shared, pinned), pinned))
			var r *looptest.Running
			if !early {
				r = looptest.Start(t, m.Run)
				synctest.Wait()
				events.Take()
			}
			remove := func(name string) []string {
				t.Helper()
				require.NoError(t, m.Remove(t.Context(), name))
				m.CheckInvariants(t)
				return events.Take()
			}
			want := func(events ...string) []string {
				if early {
					return nil
				}
				return events
			}
			assert.Equal(t, want("a drained", "a stops", "own stops"), remove("a"), "it ends after the part")
			require.ErrorIs(t, m.Remove(t.Context(), "shared"), manager.ErrNoPart, "it was not added")
			assert.Equal(t, want("b drained", "b stops", "shared stops"), remove("b"))
			require.Len(t, m.Stats().Parts, 1)
			assert.Equal(t, want("pinned stops"), remove("pinned"), "it was added")
			require.NoError(t, m.Check())
			if r != nil {
				require.NoError(t, r.Stop())
			}
		})
	}
}

func TestAddedInformerStaysForPartsThatNeedIt(t *testing.T) {
	inStage(t, manager.Config{}, func(t *testing.T, s *fakeStage) {
		require.NoError(t, s.manager.Add(newFakePart("reads", s.events, s.informer)))
		s.start(t)
		s.events.Take()
		require.NoError(t, s.manager.Remove(t.Context(), "informer"))
		synctest.Wait()
		assert.Empty(t, s.events.Take())
		s.manager.CheckInvariants(t)
		require.ErrorIs(t, s.manager.Remove(t.Context(), "informer"), manager.ErrNoPart)
		require.NoError(t, s.manager.Add(s.informer), "it may be added again")
		require.NoError(t, s.manager.Remove(t.Context(), "reads"))
		assert.Equal(t, []string{"reads drained", "reads stops"}, s.events.Take())
		require.NoError(t, s.manager.Remove(t.Context(), "informer"))
		assert.Equal(t, []string{"informer stops"}, s.events.Take())
	})
}

func TestRemoveReportsErrorsOfInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &looptest.Log[string]{}
		informer := newFakeInformer("informer", events)
		informer.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Minute); return errBoom }
		m := must(manager.New(manager.Config{Logger: quiet}, newFakePart("a", events, informer), newFakePart("b", events)))
		r := looptest.Start(t, m.Run)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		first := looptest.Start(t, func(context.Context) error { return m.Remove(ctx, "a") })
		second := looptest.Start(t, func(ctx context.Context) error { return m.Remove(ctx, "a") })
		<-first.Done()
		require.EqualError(t, first.Stop(), `manager: remove "a": informer "informer" has not ended yet: context deadline exceeded`)
		require.ErrorIs(t, m.Add(newFakePart("c", events, informer)), manager.ErrExists, "it has not ended yet")
		require.ErrorIs(t, m.Add(informer), manager.ErrExists)
		require.NoError(t, m.Add(newFakePart("a", events)), "its name is free")
		m.CheckInvariants(t)
		<-second.Done()
		require.EqualError(t, second.Stop(), `manager: remove "a": boom`)
		m.CheckInvariants(t)
		require.NoError(t, m.Add(newFakePart("c", events, informer)))
		require.ErrorIs(t, r.Stop(), errBoom)
	})
}

func TestOuterPartStartsFirstAndStopsLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{Store: memlease.New()}
		s := newStage(t, manager.Config{Election: election(store)})
		notes := s.watch(store)
		s.informer.hold = true
		require.NoError(t, s.manager.Add(manager.At(manager.Outer, newFakePart("recorder", s.events))))
		r := looptest.Start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"informer starts", "recorder starts"}, s.events.Take())
		close(s.informer.synced)
		synctest.Wait()
		assert.Equal(t, []string{"part starts"}, s.events.Take(), "the manager does not wait for the recorder to sync")
		notes.Store(true)
		require.NoError(t, r.Stop())
		stops := s.events.Take()
		assert.Equal(t, []string{"part drained", "part stops", "hook", "lease is written"}, stops[:4])
		assert.Equal(t, "recorder stops", stops[len(stops)-1])
	})
}

// plain is an informer that cannot be compared with another, so each is one of its own.
type plain struct {
	*fakeInformer
	_ []int
}

func TestUncomparableInformersAreDistinct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &looptest.Log[string]{}
		var informers []controller.Informer
		for range 2 {
			informers = append(informers, plain{fakeInformer: newFakeInformer("plain", events)})
		}
		m := must(manager.New(manager.Config{Logger: quiet}, newFakePart("a", events, informers...)))
		looptest.Start(t, m.Run)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"plain starts", "plain starts", "a starts"}, events.Take())
	})
}

func TestLastStageOfPartWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlease.New()
		lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		events := &looptest.Log[string]{}
		c := &checked{fakePart: newFakePart("a", events)}
		m := must(manager.New(manager.Config{Election: election(store), Logger: quiet},
			manager.At(manager.Always, manager.At(manager.Outer, c)), manager.At(manager.Leading, newFakePart("b", events))))
		looptest.Start(t, m.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a starts"}, events.Take())
		require.NoError(t, m.Check())
		assert.EqualValues(t, 1, c.asked.Load(), "the methods of the part are found")
	})
}

func TestInformerAddedAsPartIsRejectedAsInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &looptest.Log[string]{}
		late := newFakeInformer("late", events)
		m := must(manager.New(manager.Config{Logger: quiet}, manager.At(manager.Always, late)))
		require.ErrorIs(t, m.Add(newFakePart("reads", events, late)), manager.ErrExists, "it runs after the informers")
		require.Len(t, m.Stats().Parts, 1)
		m.CheckInvariants(t)
	})
}

// derivedInformer is an informer that is made from another one.
type derivedInformer struct {
	*fakeInformer
	from controller.Informer
}

func (s derivedInformer) Informers() []controller.Informer { return []controller.Informer{s.from} }

func TestRemoveWaitsForInformersOfInformers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &looptest.Log[string]{}
		base := newFakeInformer("base", events)
		base.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return errBoom }
		derived := &derivedInformer{newFakeInformer("derived", events), base}
		m := must(manager.New(manager.Config{Logger: quiet}, manager.At(manager.Outer, derived), newFakePart("part", events, derived)))
		r := looptest.Start(t, m.Run)
		synctest.Wait()
		require.NoError(t, m.Remove(t.Context(), "derived"), "the part needs it")
		m.CheckInvariants(t)
		events.Take()
		require.ErrorIs(t, m.Remove(t.Context(), "part"), errBoom)
		assert.Equal(t, []string{"part drained", "part stops", "derived stops", "base stops"}, events.Take())
		m.CheckInvariants(t)
		require.NoError(t, r.Stop())
	})
}
