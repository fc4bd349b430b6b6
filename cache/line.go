package cache

import "hash/maphash"

// minSlotsKept is the number of slots of a line that are kept however few nodes there are.
const minSlotsKept = 64

// line holds nodes by key, in the order in which they came. Its hash table has open addressing with linear probing, and
// the hashes in it: what is removed is found without its key, and a table that grows looks at no key at all. (See D. E.
// Knuth, The Art of Computer Programming, volume 3, section 6.4, algorithms L and R.)
//
// Invariants:
//
//  1. The list from first to last holds the nodes of the table, of which n is the number.
//  2. The number of slots is a power of two; at most four fifths of them are used.
//  3. Between the slot that the hash of a node asks for and its own there is no empty one.
type line[K comparable, V any] struct {
	seed        maphash.Seed
	slots       []slot[K, V]
	n           int
	first, last *node[K, V]
}

type slot[K comparable, V any] struct {
	node *node[K, V] // nil if the slot is empty
	hash uint32
}

type node[K comparable, V any] struct {
	key        K
	hash       uint32
	v          V
	prev, next *node[K, V]
}

func newLine[K comparable, V any](seed maphash.Seed) line[K, V] { return line[K, V]{seed: seed} }

func (l *line[K, V]) hash(key K) uint32 { return uint32(maphash.Comparable(l.seed, key)) }

// get returns the node of key, or nil.
func (l *line[K, V]) get(key K) *node[K, V] { return l.find(key, l.hash(key)) }

func (l *line[K, V]) find(key K, hash uint32) *node[K, V] {
	if l.n == 0 {
		return nil
	}
	for i := int(hash); ; i++ {
		s := &l.slots[i&(len(l.slots)-1)]
		if s.node == nil || s.hash == hash && s.node.key == key {
			return s.node
		}
	}
}

// push puts a node with this key at the end. There must not be one.
func (l *line[K, V]) push(key K, hash uint32, v V) *node[K, V] {
	l.reserve(1)
	e := &node[K, V]{key: key, hash: hash, v: v, prev: l.last}
	if e.prev != nil {
		e.prev.next = e
	} else {
		l.first = e
	}
	l.last = e
	l.n++
	l.enter(slot[K, V]{e, hash})
	return e
}

// enter puts s into the first empty slot.
func (l *line[K, V]) enter(s slot[K, V]) {
	for i := int(s.hash); ; i++ {
		if to := &l.slots[i&(len(l.slots)-1)]; to.node == nil {
			*to = s
			return
		}
	}
}

// remove takes out a node, which must be in.
func (l *line[K, V]) remove(e *node[K, V]) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		l.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		l.last = e.prev
	}
	e.prev, e.next = nil, nil

	mask := uint32(len(l.slots) - 1)
	empty := e.hash & mask
	for l.slots[empty].node != e {
		empty = (empty + 1) & mask
	}
	// What comes after it, up to an empty slot, moves up, unless it would move before the slot that its hash asks for.
	for i := (empty + 1) & mask; l.slots[i].node != nil; i = (i + 1) & mask {
		if (i-l.slots[i].hash)&mask >= (i-empty)&mask {
			l.slots[empty] = l.slots[i]
			empty = i
		}
	}
	l.slots[empty] = slot[K, V]{}
	l.n--
	if len(l.slots) > minSlotsKept && 8*l.n < len(l.slots) {
		l.resize(len(l.slots) / 2)
	}
}

// reserve makes room for so many nodes more.
func (l *line[K, V]) reserve(more int) {
	slots := max(minSlots, len(l.slots))
	for 5*(l.n+more) > 4*slots {
		slots *= 2
	}
	if slots != len(l.slots) {
		l.resize(slots)
	}
}

func (l *line[K, V]) resize(slots int) {
	old := l.slots
	l.slots = make([]slot[K, V], slots)
	for _, s := range old {
		if s.node != nil {
			l.enter(s)
		}
	}
}
