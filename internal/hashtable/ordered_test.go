package hashtable_test

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/internal/hashtable"
	"github.com/stretchr/testify/require"
)

// The model is a list of the keys in order of arrival, and a map. Each seed has phases in which the map grows and shrinks.
func TestOrderedMapMatchesListAndMap(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
		var order []int
		values := map[int]int{}
		for step := range 400 {
			key := r.IntN(4 << (seed % 6))
			if _, present := values[key]; present && r.IntN(2+2*(step/100%2)) > 0 {
				if r.IntN(3) == 0 {
					key = order[0]
				}
				o.Remove(o.Get(key))
				order = slices.DeleteFunc(order, func(k int) bool { return k == key })
				if len(order) == 0 {
					order = nil
				}
				delete(values, key)
			} else {
				e, fresh := o.Push(key, o.Hash(key))
				require.Equal(t, !present, fresh)
				require.Equal(t, values[key], e.Value, "a new node has no value")
				e.Value, values[key] = step, step
				if fresh {
					order = append(order, key)
				}
			}
			if r.IntN(20) == 0 {
				o.Reserve(r.IntN(20))
			}
			requireSame(t, &o, order, values)
		}
	}
}

func requireSame(t *testing.T, o *hashtable.Ordered[int, int], order []int, values map[int]int) {
	t.Helper()
	require.NoError(t, o.Check())
	require.Equal(t, len(order), o.Len())
	var forward, backward []int
	for e := range o.All() {
		forward = append(forward, e.Key)
		require.Equal(t, values[e.Key], e.Value)
	}
	for e := range o.Backward() {
		backward = append(backward, e.Key)
	}
	slices.Reverse(backward)
	require.Equal(t, order, forward)
	require.Equal(t, order, backward)
	require.Nil(t, o.Get(-1))
	require.Equal(t, -1, o.Search(-1, o.Hash(-1)))
	if len(order) == 0 {
		require.Nil(t, o.First())
		require.Nil(t, o.Last())
		return
	}
	require.Equal(t, order[0], o.First().Key)
	require.Equal(t, order[len(order)-1], o.Last().Key)
}

func TestPlacesCountFromZeroUntilANodeIsRemoved(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 100 {
		o.Push(key, o.Hash(key))
		require.Equal(t, key, o.Search(key, o.Hash(key)))
		require.Equal(t, key, o.At(key).Key)
	}
}

func TestEmptiedOrderedMapReleasesMemory(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 10_000 {
		o.Push(key, o.Hash(key))
	}
	require.GreaterOrEqual(t, o.Room(), 10_000)
	for key := range 10_000 {
		o.Remove(o.Get(key))
	}
	require.LessOrEqual(t, o.Room(), 64)
	require.NoError(t, o.Check())
}

// The queue is never empty, so the ring wraps around without growing.
func TestRingInUseDoesNotGrow(t *testing.T) {
	o := hashtable.NewOrdered[int, int](maphash.MakeSeed())
	for key := range 10_000 {
		o.Push(key, o.Hash(key))
		if key >= 4 {
			o.Remove(o.First())
		}
	}
	require.LessOrEqual(t, o.Room(), 8)
	for range o.All() {
		break
	}
	for range o.Backward() {
		break
	}
}
