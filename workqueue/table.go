package workqueue

import (
	"hash/maphash"
	"iter"
)

// table finds the entry of a key. It is a hash table with open addressing and linear probing, with the hashes in it: what is
// removed is found without its key, and a table that grows looks at no key at all. (See D. E. Knuth, The Art of Computer
// Programming, volume 3, section 6.4, algorithms L and R.) A map of Go needs about half as much time again, since it can
// neither be told the hash nor be asked for the place of what it found.
//
// Invariants, which check tests:
//
//  1. The number of slots is a power of two; at most four fifths of them are used, of which n is the number.
//  2. Between the slot that the hash of an entry asks for and its own there is no empty one.
type table[K comparable] struct {
	pool  *pool[K]
	seed  maphash.Seed
	slots []slot
	n     int
}

type slot struct {
	hash  uint32
	entry id // 0 if the slot is empty
}

// minSlots is the number of slots of a table at first.
const minSlots = 4

func newTable[K comparable](p *pool[K]) table[K] { return table[K]{pool: p, seed: maphash.MakeSeed()} }

// hash returns the hash of key. It may be called beside all other methods.
func (t *table[K]) hash(key K) uint32 { return uint32(maphash.Comparable(t.seed, key)) }

// find returns the entry of key, whose hash it is given; nil if there is none.
func (t *table[K]) find(key K, hash uint32) *entry[K] {
	if t.n == 0 {
		return nil
	}
	for i := hash; ; i++ {
		s := t.slots[int(i)&(len(t.slots)-1)]
		if s.entry == 0 {
			return nil
		}
		if s.hash == hash {
			if e := t.pool.at(s.entry); e.key == key {
				return e
			}
		}
	}
}

// get returns the entry of key, nil if there is none.
func (t *table[K]) get(key K) *entry[K] { return t.find(key, t.hash(key)) }

// add adds e, whose key is not in the table, by its hash.
func (t *table[K]) add(e *entry[K]) {
	if 5*(t.n+1) > 4*len(t.slots) {
		t.resize(max(minSlots, 2*len(t.slots)))
	}
	t.n++
	t.put(slot{e.hash, e.id})
}

// put puts s in the first empty slot.
func (t *table[K]) put(s slot) {
	for i := s.hash; ; i++ {
		if to := &t.slots[int(i)&(len(t.slots)-1)]; to.entry == 0 {
			*to = s
			return
		}
	}
}

// remove removes e, which is in the table.
func (t *table[K]) remove(e *entry[K]) {
	mask := uint32(len(t.slots) - 1)
	empty := e.hash & mask
	for t.slots[empty].entry != e.id {
		empty = (empty + 1) & mask
	}
	// What comes after it, up to an empty slot, moves up, unless it would move before the slot that its hash asks for.
	for i := (empty + 1) & mask; t.slots[i].entry != 0; i = (i + 1) & mask {
		if (i-t.slots[i].hash)&mask >= (i-empty)&mask {
			t.slots[empty] = t.slots[i]
			empty = i
		}
	}
	t.slots[empty] = slot{}
	t.n--
	if len(t.slots) > 2*keep && 8*t.n < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}

// resize gives t another number of slots.
func (t *table[K]) resize(n int) {
	old := t.slots
	t.slots = make([]slot, n)
	for _, s := range old {
		if s.entry != 0 {
			t.put(s)
		}
	}
}

// all returns all entries, in no order.
func (t *table[K]) all() iter.Seq[*entry[K]] {
	return func(yield func(*entry[K]) bool) {
		for _, s := range t.slots {
			if s.entry != 0 && !yield(t.pool.at(s.entry)) {
				return
			}
		}
	}
}
