package informer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

// runGroup runs g until its context ends, and returns the channel of its result.
func runGroup(ctx context.Context, g *informer.Group) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }() // ends with ctx, or by itself; who receives waits for it
	synctest.Wait()
	return ended
}

func join(t *testing.T, g *informer.Group, src informer.ListWatcher[site], name string) *informer.Informer[string, site] {
	t.Helper()
	in, err := informer.For(g, src, nameOf, informer.Config{Name: name, OnError: func(error) {}})
	require.NoError(t, err)
	return in
}

func TestWhoAsksForTheSameSourceGetsTheSameInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(informer.NewGroup(informer.GroupConfig{}))
		src, other := &spy{ListWatcher: newSource()}, newSource()
		in := join(t, g, src, "sites")
		assert.Same(t, in, join(t, g, src, "ignored"))
		assert.NotSame(t, in, join(t, g, other, "others"))
		assert.Zero(t, src.got().lists, "nothing runs before Run")

		ctx, cancel := context.WithCancel(t.Context())
		ended := runGroup(ctx, g)
		assert.Same(t, in, join(t, g, src, ""))
		assert.Equal(t, []int{1, 1}, []int{src.got().lists, src.got().watches})
		assert.Equal(t, []informer.Syncer{in, join(t, g, other, "")}, g.Syncers())
		cancel()
		require.NoError(t, <-ended)
		assert.Zero(t, src.got().open, "Run has waited")
		assert.Same(t, in, join(t, g, src, ""), "what is there can still be read")
	})
}

func TestALateInformerStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(informer.NewGroup(informer.GroupConfig{Name: "all"}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := runGroup(ctx, g)
		assert.True(t, g.HasSynced(), "there is nothing to wait for")
		late := join(t, g, newSource(), "late")
		synctest.Wait()
		assert.True(t, late.HasSynced())
		require.NoError(t, g.WaitForSync(ctx))

		err := g.Run(ctx)
		assert.ErrorIs(t, err, informer.ErrRunning)
		assert.EqualError(t, err, "informer: run group all: already running")
		cancel()
		require.NoError(t, <-ended)
		assert.ErrorIs(t, g.Run(ctx), informer.ErrEnded)
		_, err = informer.For(g, newSource(), nameOf, informer.Config{Name: "too late"})
		assert.ErrorIs(t, err, informer.ErrEnded)
		assert.EqualError(t, err, "informer: add too late to group all: has ended")
	})
}

func TestAGroupHasSyncedWhenAllOfItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(informer.NewGroup(informer.GroupConfig{}))
		good, bad, late := newSource(), newSource(), newSource()
		bad.Fail(errOutage)
		join(t, g, good, "good")
		join(t, g, bad, "bad")
		ctx, cancel := context.WithCancel(t.Context())
		ended := runGroup(ctx, g)
		late.Fail(errOutage)
		join(t, g, late, "late")
		limited, giveUp := context.WithCancelCause(ctx)
		giveUp(errors.New("enough"))
		assert.EqualError(t, g.WaitForSync(limited), "informer: wait for sync of bad, late: enough")
		assert.EqualError(t, informer.WaitForSync(limited, g), "informer: wait for sync of bad, late: enough")

		bad.Fail(nil)
		require.NoError(t, informer.WaitForSync(ctx, g.Syncers()[:2]...))
		synctest.Wait()
		assert.False(t, g.HasSynced(), "one came late, but not too late")
		late.Fail(nil)
		<-g.Synced()
		require.NoError(t, g.WaitForSync(ctx))
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestAGroupThatNeverSyncsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(informer.NewGroup(informer.GroupConfig{}))
		src := newSource()
		src.Fail(errOutage)
		join(t, g, src, "sites")
		ctx, cancel := context.WithCancel(t.Context())
		ended := runGroup(ctx, g)
		cancel()
		require.NoError(t, <-ended)
		assert.False(t, g.HasSynced())
	})
}

func TestAnInformerThatEndsByItselfEndsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := must(informer.NewGroup(informer.GroupConfig{}))
		one, two := join(t, g, newSource(), "one"), join(t, g, newSource(), "two")
		three := &spy{ListWatcher: newSource()}
		join(t, g, three, "three")
		start(t, one)
		start(t, two)
		err := <-runGroup(t.Context(), g)
		assert.ErrorIs(t, err, informer.ErrRunning)
		assert.EqualError(t, err, "informer: group informers: one: informer: run one: already running\n"+
			"informer: group informers: two: informer: run two: already running")
		assert.Zero(t, three.got().open)
	})
}

func TestForRefusesWhatItCannotShare(t *testing.T) {
	g := must(informer.NewGroup(informer.GroupConfig{}))
	assert.Panics(t, func() { _, _ = informer.For(g, nil, nameOf, informer.Config{}) })
	assert.PanicsWithValue(t, "informer: For needs a source that can be compared, such as a pointer, not a informer_test.scripted", func() {
		_, _ = informer.For(g, scripted{list: empty}, nameOf, informer.Config{})
	})
	src := newSource()
	join(t, g, src, "sites")
	assert.Panics(t, func() {
		_, _ = informer.For(g, src, func(s site) int { return s.Rev }, informer.Config{})
	})
}

func TestWaitForSyncNamesTheMembersOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, src := must(informer.NewGroup(informer.GroupConfig{Name: "caches"})), newSource()
		silent := scripted{list: func(ctx context.Context) (informer.List[site], error) {
			<-ctx.Done()
			return informer.List[site]{}, context.Cause(ctx)
		}}
		for name, source := range map[string]informer.ListWatcher[site]{"quiet": &silent, "ready": src} {
			_, err := informer.For(g, source, nameOf, informer.Config{Name: name})
			require.NoError(t, err)
		}
		other := must(informer.New(newSource(), nameOf, informer.Config{Name: "other"}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }() // ends with ctx; waited for below
		synctest.Wait()
		limited, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		assert.EqualError(t, informer.WaitForSync(limited, g, other), "informer: wait for sync of quiet, other: context deadline exceeded")

		clear(g.Syncers()) // it is a copy
		assert.Len(t, g.Syncers(), 2)
		assert.NotContains(t, g.Syncers(), nil)
		cancel()
		assert.NoError(t, <-ended)

		empty := must(informer.NewGroup(informer.GroupConfig{Name: "empty"}))
		assert.EqualError(t, informer.WaitForSync(limited, empty), "informer: wait for sync of empty: context deadline exceeded")
	})
}
