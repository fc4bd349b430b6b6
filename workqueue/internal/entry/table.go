package entry

import (
	"hash/maphash"
	"iter"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// Table has the entries of a queue, and finds them by key.
type Table[K comparable] struct {
	pool  *pool[K]
	seed  maphash.Seed
	slots hashtable.Slots // the ids of the entries
}

// minSlots is the number of slots of a new table.
const minSlots = 4

// NewTable returns an empty table.
func NewTable[K comparable]() Table[K] { return Table[K]{pool: newPool[K](), seed: maphash.MakeSeed()} }

// NewList returns an empty list for entries of t.
func (t *Table[K]) NewList() List[K] { return List[K]{pool: t.pool} }

// Len returns the number of entries.
func (t *Table[K]) Len() int { return t.slots.Len() }

// Hash returns the hash of key. It needs no lock.
func (t *Table[K]) Hash(key K) uint32 { return uint32(maphash.Comparable(t.seed, key)) }

// Find returns the entry of key, which has this hash, or nil.
func (t *Table[K]) Find(key K, hash uint32) *Entry[K] {
	if t.slots.Len() == 0 {
		return nil
	}
	for n, at := t.slots.Next(hash, hash); n != 0; n, at = t.slots.Next(hash, at) {
		if e := t.pool.at(id(n)); e.Key == key {
			return e
		}
	}
	return nil
}

// Get returns the entry of key, or nil.
func (t *Table[K]) Get(key K) *Entry[K] { return t.Find(key, t.Hash(key)) }

// Add returns a new entry for key, which has this hash and no entry. The caller sets its State and its Number.
func (t *Table[K]) Add(key K, hash uint32) *Entry[K] {
	e := t.pool.take()
	e.Key, e.hash = key, hash
	if size := t.slots.Size(); t.slots.Len() == hashtable.CapacityOf(size) {
		t.slots.Resize(max(minSlots, 2*size))
	}
	t.slots.Add(hash, uint32(e.id))
	return e
}

// Remove removes e, which is in no list, not in line, and not scheduled. The caller must not use e anymore.
func (t *Table[K]) Remove(e *Entry[K]) {
	t.slots.Remove(e.hash, uint32(e.id))
	if size := t.slots.Size(); size > 2*keep && 8*t.slots.Len() < size {
		t.slots.Resize(size / 2)
	}
	t.pool.give(e)
}

// Own returns the details of e, to be changed.
func (t *Table[K]) Own(e *Entry[K]) *Details[K] { return t.pool.own(e) }

// All iterates over all entries, in no order.
func (t *Table[K]) All() iter.Seq[*Entry[K]] {
	return func(yield func(*Entry[K]) bool) {
		for _, n := range t.slots.All() {
			if !yield(t.pool.at(id(n))) {
				return
			}
		}
	}
}

// Chunk returns the entries of one chunk, of which there are at most ChunkSize. Entries without a Number are not in use. It returns
// false if there are no more chunks. An entry stays in its chunk.
func (t *Table[K]) Chunk(n int) ([]Entry[K], bool) {
	if n >= len(t.pool.chunks) {
		return nil, false
	}
	return t.pool.chunks[n].entries, true
}
