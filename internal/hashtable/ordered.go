package hashtable

import (
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"reflect"
)

// keptSlots is the number of slots that an Ordered keeps even if it is empty.
const keptSlots = 64

// Ordered is a map that keeps the order in which its keys arrived. Its nodes are in a ring buffer. A node that is removed
// from the middle leaves a hole there, which the next resize closes. Find, Push, and Remove take constant time.
//
// A pointer to a node is valid until the next Push, Reserve, or Remove. Make an Ordered with [NewOrdered].
//
// Invariants, which Check tests:
//
//  1. The used part of the ring begins at head. n of its nodes are not holes; the first and the last node are among them.
//  2. The ring has room for as many nodes as the slots are enough for.
//  3. Each node has one slot, and each slot a node. A slot has the place in the ring plus one.
type Ordered[K comparable, V any] struct {
	seed       maphash.Seed
	slots      Slots
	nodes      []Node[K, V]
	head, used int
	n          int
}

// Node is a key of an [Ordered] with its value. Only the value may be changed.
type Node[K comparable, V any] struct {
	Key     K
	Value   V
	Hash    uint32
	Present bool // false for a hole, and for the zero Node
}

// NewOrdered returns an empty map, whose hashes are made with seed.
func NewOrdered[K comparable, V any](seed maphash.Seed) Ordered[K, V] {
	return Ordered[K, V]{seed: seed}
}

// Len returns the number of keys.
func (o *Ordered[K, V]) Len() int { return o.n }

// Room returns the number of nodes that the ring has room for.
func (o *Ordered[K, V]) Room() int { return len(o.nodes) }

// Hash returns the hash of key. Several goroutines may call it concurrently, and with all other methods.
func (o *Ordered[K, V]) Hash(key K) uint32 { return uint32(maphash.Comparable(o.seed, key)) }

// Get returns the node of key, or nil.
func (o *Ordered[K, V]) Get(key K) *Node[K, V] { return o.Find(key, o.Hash(key)) }

// Find is Get for a caller that has the hash.
func (o *Ordered[K, V]) Find(key K, hash uint32) *Node[K, V] {
	if at := o.Search(key, hash); at >= 0 {
		return &o.nodes[at]
	}
	return nil
}

// Search returns the place in the ring of the node of key, or -1.
func (o *Ordered[K, V]) Search(key K, hash uint32) int {
	if o.n == 0 {
		return -1
	}
	at, _ := o.probe(key, hash)
	return at
}

// At returns the node at a place in the ring. If nothing was removed since the Ordered was empty, the places are 0, 1, and
// so on, in the order of the keys.
func (o *Ordered[K, V]) At(place int) *Node[K, V] { return &o.nodes[place] }

// probe returns the place in the ring of the node of key. If there is no such node, it returns -1 and the slot for it. The
// table must have slots.
func (o *Ordered[K, V]) probe(key K, hash uint32) (at int, slot uint32) {
	slot = hash
	for {
		var number uint32
		if number, slot = o.slots.Next(hash, slot); number == 0 {
			return -1, slot
		}
		if at := int(number) - 1; o.nodes[at].Key == key {
			return at, slot
		}
	}
}

// place returns the place in the ring of the node at the given distance from the first, holes included.
func (o *Ordered[K, V]) place(after int) int {
	at := o.head + after
	if at >= len(o.nodes) {
		at -= len(o.nodes)
	}
	return at
}

// First returns the first node, or nil.
func (o *Ordered[K, V]) First() *Node[K, V] {
	if o.n == 0 {
		return nil
	}
	return &o.nodes[o.head]
}

// Last returns the last node, or nil.
func (o *Ordered[K, V]) Last() *Node[K, V] {
	if o.n == 0 {
		return nil
	}
	return &o.nodes[o.place(o.used-1)]
}

// All iterates over the nodes, in order. No node may be added or removed during the iteration.
func (o *Ordered[K, V]) All() iter.Seq[*Node[K, V]] {
	return func(yield func(*Node[K, V]) bool) {
		for i := range o.used {
			if e := &o.nodes[o.place(i)]; e.Present && !yield(e) {
				return
			}
		}
	}
}

// Backward is All in the opposite order.
func (o *Ordered[K, V]) Backward() iter.Seq[*Node[K, V]] {
	return func(yield func(*Node[K, V]) bool) {
		for i := o.used - 1; i >= 0; i-- {
			if e := &o.nodes[o.place(i)]; e.Present && !yield(e) {
				return
			}
		}
	}
}

// Push returns the node of key. If there is none, Push adds one at the end, with the zero value, and fresh is true.
func (o *Ordered[K, V]) Push(key K, hash uint32) (e *Node[K, V], fresh bool) {
	o.Reserve(1)
	at, slot := o.probe(key, hash)
	if at >= 0 {
		return &o.nodes[at], false
	}
	at = o.place(o.used)
	e = &o.nodes[at]
	e.Key, e.Hash, e.Present = key, hash, true // a hole has no value
	o.slots.Set(slot, hash, uint32(at)+1)
	o.used++
	o.n++
	return e, true
}

// Remove removes a node, which must be present.
func (o *Ordered[K, V]) Remove(e *Node[K, V]) {
	number, after := o.slots.Next(e.Hash, e.Hash)
	for &o.nodes[number-1] != e {
		number, after = o.slots.Next(e.Hash, after)
	}
	o.slots.RemoveAt(after - 1)
	*e = Node[K, V]{}
	o.n--
	for o.used > 0 && !o.nodes[o.head].Present {
		o.head = o.place(1)
		o.used--
	}
	for o.used > 0 && !o.nodes[o.place(o.used-1)].Present {
		o.used--
	}
	if slots := o.slots.Size(); slots > keptSlots && 8*o.n < slots {
		o.resize(max(keptSlots, slots/4))
	}
}

// Reserve makes room for the given number of additional nodes. When it closes holes, it makes room for a third more nodes than needed, so
// that the next resize is not soon.
func (o *Ordered[K, V]) Reserve(more int) {
	if o.used+more <= len(o.nodes) {
		return
	}
	room := o.n + more
	if o.n < o.used {
		room += room / 3
	}
	o.resize(max(o.slots.Size(), SlotsFor(room)))
}

// resize moves all nodes to a ring without holes.
func (o *Ordered[K, V]) resize(slots int) {
	to := Ordered[K, V]{seed: o.seed, slots: MakeSlots(slots), nodes: make([]Node[K, V], CapacityOf(slots))}
	for e := range o.All() {
		to.nodes[to.n] = *e
		to.n++
		to.slots.Add(e.Hash, uint32(to.n))
	}
	to.used = to.n
	*o = to
}

// Check returns an error if an invariant does not hold.
func (o *Ordered[K, V]) Check() error {
	if err := o.slots.Check(); err != nil {
		return err
	}
	n, present := 0, 0
	for e := range o.All() {
		n++
		if o.Find(e.Key, e.Hash) != e || e.Hash != o.Hash(e.Key) {
			return fmt.Errorf("ordered 3: %v is not where it belongs", e.Key)
		}
	}
	for i := range o.nodes {
		switch e := &o.nodes[i]; {
		case e.Present:
			present++
		case !reflect.ValueOf(e).Elem().IsZero():
			return fmt.Errorf("ordered: a hole keeps %v alive", e.Key)
		}
	}
	if n != o.n || present != n || o.slots.Len() != n {
		return fmt.Errorf("ordered 1: %d nodes in the ring, %d of them used, %d slots, counted %d", present, n, o.slots.Len(), o.n)
	}
	if size := o.slots.Size(); len(o.nodes) != CapacityOf(size) || size > max(keptSlots, 16*n) {
		return fmt.Errorf("ordered 2: a ring for %d nodes and %d slots for %d keys", len(o.nodes), size, n)
	}
	if n > 0 && !(o.First().Present && o.Last().Present) {
		return errors.New("ordered 1: the ring begins or ends with a hole")
	}
	return nil
}
