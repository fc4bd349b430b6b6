package cache

import (
	"sort"
	"sync"
)

const (
	// batchSize is the number of places that an iterator looks at in one hold of the read lock.
	batchSize = 64

	// minSlots is the size below which a list is left alone: it holds few holes, and append grows it fast enough.
	minSlots = 8
)

// ordered is a list in order of insertion that can be read in pieces while it changes. Each value has a number, and a
// reader goes on behind the number that it has read last. A removed value leaves a hole.
//
// Invariants:
//  1. The numbers grow strictly along slots. So a value is found by binary search, and a place is never used again.
//  2. live is the number of slots that are no holes.
//  3. A change begins with fewer holes than live values, or with fewer than minSlots slots.
type ordered[V any] struct {
	slots []slot[V]
	live  int
}

type slot[V any] struct {
	seq uint64
	v   *V // nil in a hole
}

// push appends v. The number must be higher than all before.
func (o *ordered[V]) push(seq uint64, v *V) {
	o.slots = append(o.slots, slot[V]{seq: seq, v: v})
	o.live++
}

// remove makes a hole where the value with this number is.
func (o *ordered[V]) remove(seq uint64) {
	o.slots[o.search(seq)].v = nil
	o.live--
}

// search returns the place of the first slot whose number is at least seq.
func (o *ordered[V]) search(seq uint64) int {
	return sort.Search(len(o.slots), func(i int) bool { return o.slots[i].seq >= seq })
}

// window returns the next slots, holes among them, with numbers in [from, end), batchSize of them at most, and the
// number to go on from: end when there are no more. A nil list is empty.
func (o *ordered[V]) window(from, end uint64) (slots []slot[V], next uint64) {
	if o == nil {
		return nil, end
	}
	slots = o.slots[o.search(from):]
	if len(slots) > batchSize {
		slots = slots[:batchSize]
	} else {
		next = end
	}
	for len(slots) > 0 && slots[len(slots)-1].seq >= end {
		slots, next = slots[:len(slots)-1], end
	}
	if next != end {
		next = slots[len(slots)-1].seq + 1
	}
	return slots, next
}

// tidy squeezes the holes out when they are half of the list, and makes room for one more. The one writer calls it
// before it pushes or removes, without mu: readers wait for the swap only, not for the copy.
func (o *ordered[V]) tidy(mu *sync.RWMutex) {
	full, holey := len(o.slots) == cap(o.slots), o.live <= len(o.slots)/2
	if len(o.slots) < minSlots || !full && !holey {
		return
	}
	slots := make([]slot[V], 0, o.live+o.live/2+minSlots)
	for _, s := range o.slots {
		if s.v != nil {
			slots = append(slots, s)
		}
	}
	mu.Lock()
	o.slots = slots
	mu.Unlock()
}
