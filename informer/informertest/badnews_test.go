package informertest_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/informer"
)

func TestFrozenListIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		w := start(t.Context(), src, 1)
		src.Freeze(true)
		src.Put(pair{"a", "2"})
		src.Put(pair{"b", "3"})
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "1"}}, Version: 1}, list)
		got, _ := w.take()
		assert.Equal(t, []string{"2 Modified a2", "3 Added b3"}, got, "watches are correct")
		src.Freeze(false)
		list, err = src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "2"}, {"b", "3"}}, Version: 3}, list)
	})
}

func TestChangesWhileMutedAreNeverReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		w := start(t.Context(), src, 0)
		src.Put(pair{"a", "1"})
		src.Mute(true)
		src.Put(pair{"a", "2"})
		src.Delete("a")
		src.Mute(false)
		src.Put(pair{"b", "4"})
		got, open := w.take()
		assert.Equal(t, []string{"1 Added a1", "4 Added b4"}, got)
		assert.True(t, open)
		got, _ = start(t.Context(), src, 2).take()
		assert.Equal(t, []string{"4 Added b4"}, got, "nor to a watch that starts during the gap")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"b", "4"}}, Version: 4}, list)
	})
}

func TestSendDeliversEventUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.Put(pair{"a", "1"})
		src.Put(pair{"a", "2"})
		now := start(t.Context(), src, 2)
		synctest.Wait()
		src.Send(informer.Event[pair]{Type: informer.Added, Object: pair{"a", "1"}, Version: 1})
		src.Put(pair{"a", "3"})
		got, _ := now.take()
		assert.Equal(t, []string{"1 Added a1", "3 Modified a3"}, got)
		got, _ = start(t.Context(), src, 1).take()
		assert.Equal(t, []string{"2 Modified a2", "1 Added a1", "3 Modified a3"}, got)
		got, _ = start(t.Context(), src, 2).take()
		assert.Equal(t, []string{"3 Modified a3"}, got, "a watch from its version does not receive it")
		list, err := src.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, informer.List[pair]{Items: []pair{{"a", "3"}}, Version: 3}, list)
	})
}

func TestListsAndWatchesFailSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		down := errors.New("down")
		w := start(t.Context(), src, 0)
		src.FailLists(down)
		_, err := src.List(t.Context())
		assert.Equal(t, down, err)
		_, open := w.take()
		assert.True(t, open)
		src.FailLists(nil)
		src.FailWatches(down)
		got, open := w.take()
		assert.Equal(t, []string{"down"}, got)
		assert.False(t, open)
		_, err = src.List(t.Context())
		assert.NoError(t, err)
		src.FailWatches(nil)
		_, open = start(t.Context(), src, 0).take()
		assert.True(t, open)
	})
}
