package hashtable_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/setpoint-go/setpoint/internal/hashtable"
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
				if find(&s, in[i].hash, in[i].number) {
					t.Fatalf("seed %d, step %d: find(&s, %d, %d) = true, want false", seed, step, in[i].hash, in[i].number)
				}
				in = slices.Delete(in, i, i+1)
			} else {
				if hashtable.CapacityOf(s.Size()) == s.Len() {
					s.Resize(2 * s.Size())
				}
				it := item{hashes[r.IntN(len(hashes))], step + 1}
				s.Add(it.hash, it.number)
				in = append(in, it)
			}
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if got, want := s.Len(), len(in); got != want {
				t.Fatalf("s.Len() = %d, want %d", got, want)
			}
			var all []item
			for hash, number := range s.All() {
				all = append(all, item{hash, number})
			}
			slices.SortFunc(all, func(a, b item) int { return cmp.Compare(a.number, b.number) })
			if !slices.Equal(all, in) { // its numbers increase
				t.Fatalf("seed %d, step %d: s.All(), sorted, = %v, want %v", seed, step, all, in)
			}
			for _, it := range in {
				if !find(&s, it.hash, it.number) {
					t.Fatalf("seed %d, step %d: find(&s, %d, %d) = false, want true", seed, step, it.hash, it.number)
				}
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
	if n != 1 {
		t.Fatalf("n = %d, want 1", n)
	}
}

func TestTableHasInitialCapacity(t *testing.T) {
	for items := range 1000 {
		slots := hashtable.SlotsFor(items)
		if got := hashtable.CapacityOf(slots); got < items {
			t.Fatalf("hashtable.CapacityOf(%d) = %d, want at least %d", slots, got, items)
		}
		if got, want := 5*hashtable.CapacityOf(slots), 4*slots; got > want {
			t.Fatalf("5*hashtable.CapacityOf(slots) = %d, want at most %d: an empty slot ends each search", got, want)
		}
		if !(slots == 8 || hashtable.CapacityOf(slots/2) < items) {
			t.Fatalf("hashtable.SlotsFor(%d) = %d: half as many suffice", items, slots)
		}
	}
}
