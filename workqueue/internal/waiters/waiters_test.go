package waiters_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// The model is a slice of the waiters in order. Each signal is received at once.
func TestListMatchesSlice(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 8))
		var l waiters.List
		var model []*waiters.Waiter
		signaled := func(ws ...*waiters.Waiter) {
			for _, w := range ws {
				w.Wake()
				require.Len(t, w.Signal, 1)
				<-w.Signal
				require.False(t, w.Listed())
				l.Reuse(w)
			}
		}
		for range 300 {
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				w := l.Add()
				require.True(t, w.Listed())
				require.Empty(t, w.Signal)
				require.NotContains(t, model, w)
				model = append(model, w)
			case 4, 5:
				w := l.Next()
				if len(model) == 0 {
					require.Nil(t, w)
					break
				}
				require.Same(t, model[0], w)
				model = model[1:]
				signaled(w)
			case 6:
				if len(model) > 0 {
					i := r.IntN(len(model))
					l.Remove(model[i])
					require.False(t, model[i].Listed())
					l.Reuse(model[i])
					model = slices.Delete(model, i, i+1)
				}
			case 7:
				if r.IntN(4) == 0 {
					all := l.Clear()
					require.Equal(t, len(model), len(all))
					for i := range all {
						require.Same(t, model[i], all[i])
					}
					model = nil
					signaled(all...)
				}
			}
			require.Equal(t, len(model) == 0, l.Empty())
		}
	}
}

func TestWakeOfWaiterThatHasGivenUpDoesNotBlock(t *testing.T) {
	var l waiters.List
	l.Add()
	l.Next().Wake() // nobody receives it
	require.True(t, l.Empty())
}

func TestReusedWaiterTakesNoMemory(t *testing.T) {
	var l waiters.List
	require.Zero(t, testing.AllocsPerRun(100, func() {
		first, second := l.Add(), l.Add()
		l.Remove(second)
		l.Remove(first)
		l.Reuse(first)
		l.Reuse(second)
	}))
}
