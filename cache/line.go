package cache

import (
	"hash/maphash"
	"iter"
)

const (
	// minSlots is the number of slots of the smallest hash table.
	minSlots = 8

	// minSlotsKept is the number of slots of a line that are kept however few nodes there are.
	minSlotsKept = 64
)

// slotsFor returns how many slots a hash table has for so many items.
func slotsFor(items int) int {
	slots := minSlots
	for capacityOf(slots) < items {
		slots *= 2
	}
	return slots
}

// capacityOf returns for how many items so many slots are enough: four fifths of them are used at most.
func capacityOf(slots int) int { return slots/5*4 + slots%5*4/5 }

// slotOf returns what a slot says of an item: its hash, and its number. An empty slot is 0.
func slotOf(hash, number uint32) uint64 { return uint64(hash)<<32 | uint64(number+1) }

// line holds values by key, in the order in which the keys came. The nodes are in a ring; what is taken from the middle
// leaves a hole in it. A hash table has their places in the ring, with open addressing and linear probing, and their
// hashes: what is removed is found without its key, and a table that grows looks at no key at all. (See D. E. Knuth, The
// Art of Computer Programming, volume 3, section 6.4, algorithms L and R.)
//
// A node stays where it is until the next push or remove.
//
// Invariants:
//
//  1. The ring is used from head on; n of the nodes that are used are no holes, the first and the last among them.
//  2. The number of slots is a power of two, and the ring has room for as many nodes as they are enough for.
//  3. Each node has one slot. Between it and the one that its hash asks for there is no empty one.
type line[K comparable, V any] struct {
	seed       maphash.Seed
	slots      []uint64
	nodes      []node[K, V]
	head, used int
	n          int
}

type node[K comparable, V any] struct {
	key  K
	v    V
	hash uint32
	in   bool // false for a hole
}

func newLine[K comparable, V any](seed maphash.Seed) line[K, V] { return line[K, V]{seed: seed} }

func (l *line[K, V]) hash(key K) uint32 { return uint32(maphash.Comparable(l.seed, key)) }

// get returns the node of key, or nil.
func (l *line[K, V]) get(key K) *node[K, V] { return l.find(key, l.hash(key)) }

func (l *line[K, V]) find(key K, hash uint32) *node[K, V] {
	if at := l.search(key, hash); at >= 0 {
		return &l.nodes[at]
	}
	return nil
}

// search returns the place in the ring of the node of key, or -1.
func (l *line[K, V]) search(key K, hash uint32) int {
	if l.n == 0 {
		return -1
	}
	at, _ := l.probe(key, hash)
	return at
}

// probe returns the place in the ring of the node of key, or -1 and the slot that it would get. There must be slots.
func (l *line[K, V]) probe(key K, hash uint32) (at, slot int) {
	mask := len(l.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := l.slots[i]
		if s == 0 {
			return -1, i
		}
		if at := int(uint32(s)) - 1; uint32(s>>32) == hash && l.nodes[at].key == key {
			return at, i
		}
	}
}

// place returns where in the ring the node is that comes so many after the first, holes included.
func (l *line[K, V]) place(after int) int {
	at := l.head + after
	if at >= len(l.nodes) {
		at -= len(l.nodes)
	}
	return at
}

// first returns the first node, or nil.
func (l *line[K, V]) first() *node[K, V] {
	if l.n == 0 {
		return nil
	}
	return &l.nodes[l.head]
}

// last returns the last node, or nil.
func (l *line[K, V]) last() *node[K, V] {
	if l.n == 0 {
		return nil
	}
	return &l.nodes[l.place(l.used-1)]
}

// all iterates over the nodes, in order. Nodes must not come or go meanwhile.
func (l *line[K, V]) all() iter.Seq[*node[K, V]] {
	return func(yield func(*node[K, V]) bool) {
		for i := range l.used {
			if e := &l.nodes[l.place(i)]; e.in && !yield(e) {
				return
			}
		}
	}
}

// backward is like all, but the last comes first.
func (l *line[K, V]) backward() iter.Seq[*node[K, V]] {
	return func(yield func(*node[K, V]) bool) {
		for i := l.used - 1; i >= 0; i-- {
			if e := &l.nodes[l.place(i)]; e.in && !yield(e) {
				return
			}
		}
	}
}

// push returns the node of key, and whether it is fresh: if there is none, push puts one without a value at the end.
func (l *line[K, V]) push(key K, hash uint32) (e *node[K, V], fresh bool) {
	l.reserve(1)
	at, slot := l.probe(key, hash)
	if at >= 0 {
		return &l.nodes[at], false
	}
	at = l.place(l.used)
	e = &l.nodes[at]
	e.key, e.hash, e.in = key, hash, true // a hole has no value
	l.slots[slot] = slotOf(hash, uint32(at))
	l.used++
	l.n++
	return e, true
}

// remove takes out a node, which must be in.
func (l *line[K, V]) remove(e *node[K, V]) {
	mask := uint32(len(l.slots) - 1)
	empty := e.hash & mask
	for uint32(l.slots[empty]>>32) != e.hash || &l.nodes[uint32(l.slots[empty])-1] != e {
		empty = (empty + 1) & mask
	}
	// What comes after it, up to an empty slot, moves up, unless it would move before the slot that its hash asks for.
	for i := (empty + 1) & mask; l.slots[i] != 0; i = (i + 1) & mask {
		if (i-uint32(l.slots[i]>>32))&mask >= (i-empty)&mask {
			l.slots[empty] = l.slots[i]
			empty = i
		}
	}
	l.slots[empty] = 0
	*e = node[K, V]{}
	l.n--
	for l.used > 0 && !l.nodes[l.head].in {
		l.head = l.place(1)
		l.used--
	}
	for l.used > 0 && !l.nodes[l.place(l.used-1)].in {
		l.used--
	}
	if len(l.slots) > minSlotsKept && 8*l.n < len(l.slots) {
		l.resize(max(minSlotsKept, len(l.slots)/4))
	}
}

// reserve makes room for so many nodes more. When it closes holes, it makes more room than that, so that it is worth while.
func (l *line[K, V]) reserve(more int) {
	if l.used+more <= len(l.nodes) {
		return
	}
	room := l.n + more
	if l.n < l.used {
		room += room / 3
	}
	l.resize(max(len(l.slots), slotsFor(room)))
}

// resize moves all nodes to a ring without holes.
func (l *line[K, V]) resize(slots int) {
	to := line[K, V]{seed: l.seed, slots: make([]uint64, slots), nodes: make([]node[K, V], capacityOf(slots))}
	for e := range l.all() {
		to.nodes[to.n] = *e
		i := int(e.hash) & (slots - 1)
		for to.slots[i] != 0 {
			i = (i + 1) & (slots - 1)
		}
		to.slots[i] = slotOf(e.hash, uint32(to.n))
		to.n++
	}
	to.used = to.n
	*l = to
}
