package hashtable_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/internal/hashtable"
	"github.com/stretchr/testify/require"
)

// find returns whether s has number under hash.
func find(s *hashtable.Slots, hash, number uint32) bool {
	for n, at := s.Next(hash, hash); n != 0; n, at = s.Next(hash, at) {
		if n == number {
			return true
		}
	}
	return false
}

// With few distinct hashes, runs of slots wrap around the end, hashes collide, and slots are removed within a run.
func TestSlotsMatchListForAnyHashes(t *testing.T) {
	type item struct{ hash, number uint32 }
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 4))
		hashes := []uint32{0, 1<<32 - 1, 1 << 31, r.Uint32(), 6, 7}[:1+seed%6]
		s := hashtable.MakeSlots(8)
		var in []item
		for step := range uint32(120) {
			if n := len(in); n > 0 && (r.IntN(5) == 0 || step > 60 && r.IntN(3) > 0) {
				i := r.IntN(n)
				s.Remove(in[i].hash, in[i].number)
				require.False(t, find(&s, in[i].hash, in[i].number), "seed %d, step %d", seed, step)
				in = slices.Delete(in, i, i+1)
			} else {
				if hashtable.CapacityOf(s.Size()) == s.Len() {
					s.Resize(2 * s.Size())
				}
				it := item{hashes[r.IntN(len(hashes))], step + 1}
				s.Add(it.hash, it.number)
				in = append(in, it)
			}
			require.NoError(t, s.Check(), "seed %d, step %d", seed, step)
			require.Equal(t, len(in), s.Len())
			var all []item
			for hash, number := range s.All() {
				all = append(all, item{hash, number})
			}
			require.ElementsMatch(t, in, all, "seed %d, step %d", seed, step)
			for _, it := range in {
				require.True(t, find(&s, it.hash, it.number), "seed %d, step %d", seed, step)
			}
		}
	}
}

func TestSlotLoopMayBreak(t *testing.T) {
	s := hashtable.MakeSlots(8)
	s.Add(1, 1)
	s.Add(2, 2)
	n := 0
	for range s.All() {
		n++
		break
	}
	require.Equal(t, 1, n)
}

func TestTableHasInitialCapacity(t *testing.T) {
	for items := range 1000 {
		slots := hashtable.SlotsFor(items)
		require.GreaterOrEqual(t, hashtable.CapacityOf(slots), items)
		require.LessOrEqual(t, 5*hashtable.CapacityOf(slots), 4*slots, "an empty slot ends each search")
		require.True(t, slots == 8 || hashtable.CapacityOf(slots/2) < items, "not more than needed")
	}
}
