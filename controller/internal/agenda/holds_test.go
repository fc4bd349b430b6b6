package agenda_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNoDeferredKeyIsLost(t *testing.T) {
	for range 20 {
		var l agenda.Holds[int]
		l.Divert()
		var adding sync.WaitGroup
		taken := make([]int, 2)
		for i := range taken {
			adding.Go(func() {
				for l.Leave(2*taken[i]+i, 0, "") {
					taken[i]++
				}
			})
		}
		for l.Len() < 4 {
			runtime.Gosched()
		}
		keys := l.Undivert()
		adding.Wait()
		require.Equal(t, taken[0]+taken[1], len(keys)) // not Len: there may be many
	}
}

func TestDeferredKeyMergesItsOptions(t *testing.T) {
	var l agenda.Holds[string]
	assert.False(t, l.Leave("a", 0, ""), "nothing drains")
	assert.False(t, l.Diverting())
	l.Divert()
	assert.True(t, l.Diverting())
	for _, k := range []agenda.Later[string]{{Priority: 1, Reason: "x"}, {Priority: 3}, {Priority: 2, Reason: "y"}, {Priority: -1}} {
		assert.True(t, l.Leave("a", k.Priority, k.Reason))
		l.Leave("b", 0, "")
		require.NoError(t, l.CheckInvariants())
	}
	keys := l.Undivert()
	for i, want := range []agenda.Later[string]{{Key: "a", Priority: 3, Reason: "y"}, {Key: "b"}} {
		want.Since = keys[i].Since
		assert.Equal(t, want, keys[i])
	}
	assert.Len(t, keys, 2)
	assert.Equal(t, 2, l.Len(), "until they are in the queue")
	assert.False(t, l.Leave("a", 0, ""))
	l.Release(2)
	assert.Zero(t, l.Len())
	require.NoError(t, l.CheckInvariants())
	l.Divert()
	assert.Empty(t, l.Undivert(), "each once")
}

func TestPausedKeyIsHeldWhenDue(t *testing.T) {
	var l agenda.Holds[string]
	assert.False(t, l.Pausing("a"))
	l.Pause("a")
	l.Pause("b")
	assert.Zero(t, l.Len())
	for range 2 {
		assert.True(t, l.Pausing("a"))
		assert.Equal(t, 1, l.Len())
		require.NoError(t, l.CheckInvariants())
	}
	l.Pause("a")
	assert.False(t, l.Pausing("c"))
	assert.False(t, l.Unpause("b"), "it was not paused")
	assert.True(t, l.Unpause("a"))
	assert.Equal(t, 1, l.Len(), "until it is in the queue")
	l.Release(1)
	assert.False(t, l.Unpause("a"))
	assert.False(t, l.Pausing("a"))
	require.NoError(t, l.CheckInvariants())
}

func TestReleaseNeedsCurrentWaitNumber(t *testing.T) {
	var l agenda.Holds[string]
	until := time.Now()
	first := l.Wait("a", until, 0)
	l.Wait("b", time.Time{}, 0)
	second := l.Wait("a", until.Add(1), 0)
	assert.NotEqual(t, first, second)
	assert.Equal(t, 2, l.Len())
	assert.Equal(t, []string{"b", "a"}, l.AllWaiting(), "as they were held")
	assert.False(t, l.UnwaitIf("a", first))
	number, ok := l.Waiting("a")
	assert.True(t, ok)
	assert.Equal(t, second, number)
	require.NoError(t, l.CheckInvariants())
	assert.True(t, l.UnwaitIf("a", second))
	assert.False(t, l.UnwaitIf("a", second))
	_, ok = l.Waiting("a")
	assert.False(t, ok)
	_, ok = l.Unwait("a")
	assert.False(t, ok)
	w, ok := l.Unwait("b")
	assert.True(t, ok)
	assert.Zero(t, w.Until)
	assert.Zero(t, l.Len())
	require.NoError(t, l.CheckInvariants())
}

func TestWaitEmptyReturnsWhenNothingIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l agenda.Holds[string]
		before, err := l.WaitEmpty(t.Context())
		require.NoError(t, err)
		assert.True(t, l.Unchanged(before))
		l.Wait("a", time.Time{}, 0)
		l.Wait("b", time.Time{}, 0)
		assert.False(t, l.Unchanged(before))
		returned := make(chan uint64, 2)
		for range 2 {
			go func() {
				changes, err := l.WaitEmpty(t.Context())
				assert.NoError(t, err)
				returned <- changes
			}()
		}
		synctest.Wait()
		l.Unwait("a")
		synctest.Wait()
		assert.Empty(t, returned)
		l.Unwait("b")
		assert.True(t, l.Unchanged(<-returned))
		assert.True(t, l.Unchanged(<-returned))
		require.NoError(t, l.CheckInvariants())

		l.Wait("a", time.Time{}, 0)
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("no more")) })
		_, err = l.WaitEmpty(ctx)
		require.EqualError(t, err, "no more")
	})
}

func TestHeldKnowsLongestHeldKeyOfEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l agenda.Holds[string]
		began := time.Now()
		ages := func() (ages [3]int) { // of the paused, and of those that wait for 0 and 1; -1 for none
			held := l.Held()
			groups := append([]agenda.Group{held.Paused}, held.On...)
			for i := range ages {
				ages[i] = -1
				if i < len(groups) && groups[i].Keys > 0 {
					ages[i] = int(groups[i].Since.Sub(began) / time.Second)
				}
			}
			require.NoError(t, l.CheckInvariants())
			return ages
		}
		assert.Equal(t, [3]int{-1, -1, -1}, ages())
		for _, key := range []string{"a", "b", "c", "d"} {
			l.Wait(key, time.Time{}, 0)
			l.Pause(key)
			time.Sleep(time.Second)
			l.Pausing(key)
		}
		assert.Equal(t, [3]int{1, 0, -1}, ages())
		l.Wait("a", time.Time{}, 0)
		l.Pause("a")
		l.Pausing("a")
		assert.Equal(t, [3]int{1, 0, -1}, ages(), "it stays first")
		l.Wait("a", time.Time{}, 1)
		assert.Equal(t, [3]int{1, 1, 4}, ages())
		unpause := func(key string) {
			assert.True(t, l.Unpause(key))
			l.Release(1)
		}
		l.Unwait("c") // in the middle
		unpause("c")
		assert.Equal(t, [3]int{1, 1, 4}, ages())
		l.Unwait("b")
		unpause("a")
		unpause("d") // the last
		assert.Equal(t, [3]int{2, 3, 4}, ages())
		l.Unwait("d")
		l.Unwait("a")
		unpause("b")
		assert.Equal(t, [3]int{-1, -1, -1}, ages())
	})
}
