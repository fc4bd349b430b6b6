package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSourcesOfAllPartsRunOnceAndAreWarmInAStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		other := lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		events := &log[string]{}
		shared, own := newFakeSource("shared", events), newFakeSource("own", events)
		m := must(manager.New(manager.Config{Election: election(store), Logger: quiet},
			newFakePart("a", events, shared), newFakePart("b", events, own, shared, own), manager.At(manager.Outer, own)))
		m.CheckInvariants(t)
		r := start(t, m.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"shared starts", "own starts"}, events.take())
		other.stop()
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"a starts", "b starts"}, events.take())
		m.CheckInvariants(t)
		var names []string
		for _, p := range m.Stats().Parts {
			names = append(names, p.Kind+" "+p.Name)
		}
		assert.Equal(t, []string{"source shared", "part a", "source own", "part b", "election lock"}, names)
		require.NoError(t, r.stop())
		assert.ElementsMatch(t, []string{"shared stops", "own stops"}, events.take()[4:], "after the parts have drained")
	})
}

func TestAPartWaitsForItsOwnSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{})
		start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		late := newFakeSource("late", s.events)
		late.hold = true
		require.NoError(t, s.manager.Add(newFakePart("reads", s.events, s.source, late), newFakePart("does not", s.events)))
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"late starts"}, s.events.take(), "and whoever was added after a source waits for it")
		close(late.synced)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"reads starts", "does not starts"}, s.events.take())
	})
}

func TestASourceEndsWithTheLastPartThatNeedsIt(t *testing.T) {
	for _, early := range []bool{false, true} { // before Run
		synctest.Test(t, func(t *testing.T) {
			events := &log[string]{}
			shared, own, pinned := newFakeSource("shared", events), newFakeSource("own", events), newFakeSource("pinned", events)
			m := must(manager.New(manager.Config{Logger: quiet},
				newFakePart("a", events, shared, own, pinned), newFakePart("b", events, shared, pinned), pinned))
			var r *running
			if !early {
				r = start(t, m.Run)
				synctest.Wait()
				events.take()
			}
			remove := func(name string) []string {
				t.Helper()
				require.NoError(t, m.Remove(t.Context(), name))
				m.CheckInvariants(t)
				return events.take()
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
				require.NoError(t, r.stop())
			}
		})
	}
}

func TestASourceThatWasAddedStaysForThePartsThatNeedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, manager.Config{})
		require.NoError(t, s.manager.Add(newFakePart("reads", s.events, s.source)))
		start(t, s.manager.Run)
		synctest.Wait()
		s.events.take()
		require.NoError(t, s.manager.Remove(t.Context(), "source"))
		synctest.Wait()
		assert.Empty(t, s.events.take())
		s.manager.CheckInvariants(t)
		require.ErrorIs(t, s.manager.Remove(t.Context(), "source"), manager.ErrNoPart)
		require.NoError(t, s.manager.Add(s.source), "it may be added again")
		require.NoError(t, s.manager.Remove(t.Context(), "reads"))
		assert.Equal(t, []string{"reads drained", "reads stops"}, s.events.take())
		require.NoError(t, s.manager.Remove(t.Context(), "source"))
		assert.Equal(t, []string{"source stops"}, s.events.take())
	})
}

func TestWhoRemovesAPartHearsOfItsSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &log[string]{}
		source := newFakeSource("source", events)
		source.run = func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Minute); return errBoom }
		m := must(manager.New(manager.Config{Logger: quiet}, newFakePart("a", events, source), newFakePart("b", events)))
		r := start(t, m.Run)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		first := start(t, func(context.Context) error { return m.Remove(ctx, "a") })
		second := start(t, func(ctx context.Context) error { return m.Remove(ctx, "a") })
		<-first.done
		require.EqualError(t, first.err, `manager: remove "a": source "source" has not ended yet: context deadline exceeded`)
		require.ErrorIs(t, m.Add(newFakePart("c", events, source)), manager.ErrExists, "it has not ended yet")
		require.ErrorIs(t, m.Add(source), manager.ErrExists)
		require.NoError(t, m.Add(newFakePart("a", events)), "its name is free")
		m.CheckInvariants(t)
		<-second.done
		require.EqualError(t, second.err, `manager: remove "a": boom`)
		m.CheckInvariants(t)
		require.NoError(t, m.Add(newFakePart("c", events, source)))
		require.ErrorIs(t, r.stop(), errBoom)
	})
}

func TestAPartOfStageOuterIsTheFirstToStartAndTheLastToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchedLeases{leases: newLeases()}
		s := newStage(t, manager.Config{Election: election(store)})
		store.events = s.events
		s.source.hold = true
		require.NoError(t, s.manager.Add(manager.At(manager.Outer, newFakePart("recorder", s.events))))
		r := start(t, s.manager.Run)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"source starts", "recorder starts"}, s.events.take())
		close(s.source.synced)
		synctest.Wait()
		assert.Equal(t, []string{"part starts"}, s.events.take(), "the manager does not wait until the recorder has synced")
		store.notes.Store(true)
		require.NoError(t, r.stop())
		stops := s.events.take()
		assert.Equal(t, []string{"part drained", "part stops", "hook", "lease is written"}, stops[:4])
		assert.Equal(t, "recorder stops", stops[len(stops)-1])
	})
}

// plain is a source that cannot be compared with another, so each is one of its own.
type plain struct {
	*fakeSource
	_ []int
}

func TestSourcesThatCannotBeComparedAreDifferent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &log[string]{}
		var sources []controller.Source
		for range 2 {
			sources = append(sources, plain{fakeSource: newFakeSource("plain", events)})
		}
		m := must(manager.New(manager.Config{Logger: quiet}, newFakePart("a", events, sources...)))
		start(t, m.Run)
		synctest.Wait()
		assert.ElementsMatch(t, []string{"plain starts", "plain starts", "a starts"}, events.take())
	})
}

func TestTheLastStageThatAPartIsGivenCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newLeases()
		lead(t, store, func(ctx context.Context) error { <-ctx.Done(); return nil })
		synctest.Wait()
		events := &log[string]{}
		c := &checked{fakePart: newFakePart("a", events)}
		m := must(manager.New(manager.Config{Election: election(store), Logger: quiet},
			manager.At(manager.Always, manager.At(manager.Outer, c)), manager.At(manager.Leading, newFakePart("b", events))))
		start(t, m.Run)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"a starts"}, events.take())
		require.NoError(t, m.Check())
		assert.EqualValues(t, 1, c.asked.Load(), "the methods of the part are found")
	})
}

func TestAPartThatIsNoSourceIsNoneForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := &log[string]{}
		late := newFakeSource("late", events)
		m := must(manager.New(manager.Config{Logger: quiet}, manager.At(manager.Always, late)))
		require.ErrorIs(t, m.Add(newFakePart("reads", events, late)), manager.ErrExists, "it runs after the sources")
		require.Len(t, m.Stats().Parts, 1)
		m.CheckInvariants(t)
	})
}
