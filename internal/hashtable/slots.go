package hashtable

import (
	"fmt"
	"iter"
)

// minSlots is the number of slots of the smallest table that [SlotsFor] returns.
const minSlots = 8

// SlotsFor returns the number of slots that a table needs for the given number of items.
func SlotsFor(items int) int {
	slots := minSlots
	for CapacityOf(slots) < items {
		slots *= 2
	}
	return slots
}

// CapacityOf returns the number of items for which the given number of slots is enough. At most four fifths of the slots
// are used.
func CapacityOf(slots int) int { return slots/5*4 + slots%5*4/5 }

// Slots is a hash table of numbers, with open addressing and linear probing. The owner keeps the items to which the
// numbers belong, and compares their keys. The table keeps the hash of each item: it removes an item without its key, and
// reads no key when it grows. (See D. E. Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithms L and
// R.) A Go map takes about 1.5 times as long: it cannot be given the hash, nor asked for the slot of a key.
//
// Invariants, which Check tests:
//
//  1. The number of slots is zero or a power of two. At most four fifths of the slots are used; n counts them.
//  2. No slot between the first slot of a hash and the slot that holds it is empty.
type Slots struct {
	slots []uint64 // the hash in the upper half, the number in the lower; 0 is an empty slot
	n     int
}

// MakeSlots returns a table of the given number of empty slots, which is a power of two.
func MakeSlots(size int) Slots { return Slots{slots: make([]uint64, size)} }

// Len returns the number of items.
func (s *Slots) Len() int { return s.n }

// Size returns the number of slots.
func (s *Slots) Size() int { return len(s.slots) }

// Next searches for a hash. It returns the next number with this hash, and the slot after it, where the search continues. It
// returns 0 and an empty slot if there is no further number. A search begins at the hash itself. The table must have slots:
//
//	for number, at := s.Next(hash, hash); number != 0; number, at = s.Next(hash, at) { ... }
func (s *Slots) Next(hash, at uint32) (number, after uint32) {
	for ; ; at++ {
		slot := s.slots[int(at)&(len(s.slots)-1)]
		if slot == 0 {
			return 0, at
		}
		if uint32(slot>>32) == hash {
			return uint32(slot), at + 1
		}
	}
}

// Add adds a number, which is not 0, under its hash. At most four fifths of the slots may be used after that.
func (s *Slots) Add(hash, number uint32) {
	at := hash
	for s.slots[int(at)&(len(s.slots)-1)] != 0 {
		at++
	}
	s.Set(at, hash, number)
}

// Set is Add for a caller that has searched: at is the empty slot that Next returned.
func (s *Slots) Set(at, hash, number uint32) {
	s.slots[int(at)&(len(s.slots)-1)] = uint64(hash)<<32 | uint64(number)
	s.n++
}

// Remove removes a number, which must be present, with its hash.
func (s *Slots) Remove(hash, number uint32) {
	at := hash
	for uint32(s.slots[int(at)&(len(s.slots)-1)]) != number {
		at++
	}
	s.RemoveAt(at)
}

// RemoveAt removes the number in a slot.
func (s *Slots) RemoveAt(at uint32) {
	mask := uint32(len(s.slots) - 1)
	empty := at & mask
	// The items after it, up to an empty slot, move up. An item stays if it would move before the first slot of its hash.
	for i := (empty + 1) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if (i-uint32(s.slots[i]>>32))&mask >= (i-empty)&mask {
			s.slots[empty] = s.slots[i]
			empty = i
		}
	}
	s.slots[empty] = 0
	s.n--
}

// Resize changes the number of slots to size, a power of two that is enough for the items.
func (s *Slots) Resize(size int) {
	to := MakeSlots(size)
	for _, slot := range s.slots {
		if slot != 0 {
			to.Add(uint32(slot>>32), uint32(slot))
		}
	}
	*s = to
}

// All iterates over the hashes and numbers, in no particular order. The table must not change during the iteration.
func (s *Slots) All() iter.Seq2[uint32, uint32] {
	return func(yield func(hash, number uint32) bool) {
		for _, slot := range s.slots {
			if slot != 0 && !yield(uint32(slot>>32), uint32(slot)) {
				return
			}
		}
	}
}

// Check returns an error if an invariant does not hold.
func (s *Slots) Check() error {
	n, size := 0, len(s.slots)
	for i, slot := range s.slots {
		if slot == 0 {
			continue
		}
		n++
		first := int(slot>>32) & (size - 1)
		for j := first; j != i; j = (j + 1) & (size - 1) {
			if s.slots[j] == 0 {
				return fmt.Errorf("slots 2: slot %d is empty, between slot %d and its hash, which asks for %d", j, i, first)
			}
		}
	}
	if n != s.n || size&(size-1) != 0 || n > CapacityOf(size) {
		return fmt.Errorf("slots 1: %d items in %d slots, counted %d", n, size, s.n)
	}
	return nil
}
