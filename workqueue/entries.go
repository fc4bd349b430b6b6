package workqueue

import (
	"hash/maphash"
	"iter"
	"math"

	"github.com/setpoint-go/setpoint/internal/hashtable"
)

// entry is a key that the queue tracks or remembers. If the key is a string, an entry takes 64 bytes, one cache line. Data that most keys
// never need is in details.
type entry[K comparable] struct {
	key K

	// Neighbors in the list of its state; every state but resting has one. In a free entry, next is the next free entry.
	prev, next id

	id          id
	hash        uint32 // of key
	wakeup      uint32 // number of its wakeup in the schedule; 0 if it has none
	state       state
	dirty       bool   // in process, and added since
	spent       bool   // in process, and the latest failure spent its budget: it is parked when it is done
	number      uint64 // of the latest change of its state: orders the ready entries, and identifies a dispatch
	wakeAt      int64  // the wake-up; 0 for none
	*details[K]        // read-only; to change them, ask the pool for the entry's own
}

// details is data that few keys or configurations need. All other keys share the zero value.
type details[K comparable] struct {
	priority int
	group    *group[K] // nil without groups
	retryAt  int64     // the backoff; 0 for none
	quietAt  int64     // the end of the quiet time; 0 for none
	quietBy  int64     // the latest end of the quiet time, however many Adds come
	since    int64     // when it entered its state, if it is parked or remembered, or Timestamps is on
	failures int32     // at most maxFailures
	failedAt int64     // the first of these failures
	reasons  *reasons
}

// state is the state of an entry, apart from its deadlines.
type state uint8

const (
	resting    state = iota // only has deadlines
	remembered              // has no deadlines either, but failures that were not forgotten
	ready                   // can be dispatched
	processing              // was dispatched, and is not done
	parked                  // has spent its budget
)

// due returns the earliest deadline of e, 0 for none.
func (e *entry[K]) due() int64 { return earliest(earliest(e.wakeAt, e.retryAt), e.quietAt) }

// earliest returns the earlier of two times, where 0 means never.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (e *entry[K]) isScheduled() bool { return e.wakeup != 0 }

// list is a linked list of entries, first in, first out.
type list[K comparable] struct {
	pool        *pool[K]
	first, last id
	n           int
}

// head returns the first entry, nil if there is none.
func (l *list[K]) head() *entry[K] {
	if l.n == 0 {
		return nil
	}
	return l.pool.at(l.first)
}

// all iterates over the entries, in order.
func (l *list[K]) all() iter.Seq[*entry[K]] {
	return func(yield func(*entry[K]) bool) {
		for i := l.first; i != 0; {
			e := l.pool.at(i)
			if !yield(e) {
				return
			}
			i = e.next
		}
	}
}

func (l *list[K]) push(e *entry[K]) {
	e.prev, e.next = l.last, 0
	if l.last != 0 {
		l.pool.at(l.last).next = e.id
	} else {
		l.first = e.id
	}
	l.last = e.id
	l.n++
}

// remove removes e, which is in the list.
func (l *list[K]) remove(e *entry[K]) {
	if e.prev != 0 {
		l.pool.at(e.prev).next = e.next
	} else {
		l.first = e.next
	}
	if e.next != 0 {
		l.pool.at(e.next).prev = e.prev
	} else {
		l.last = e.prev
	}
	e.prev, e.next = 0, 0
	l.n--
}

// keep is the number of keys for which a queue keeps its memory after a burst.
const keep = 4096

// table finds the entry of a key by its hash. A slot holds the id of an entry.
type table[K comparable] struct {
	pool  *pool[K]
	seed  maphash.Seed
	slots hashtable.Slots
}

// minSlots is the number of slots of a new table.
const minSlots = 4

func newTable[K comparable](p *pool[K]) table[K] { return table[K]{pool: p, seed: maphash.MakeSeed()} }

// len returns the number of entries.
func (t *table[K]) len() int { return t.slots.Len() }

// hash returns the hash of key. It needs no lock.
func (t *table[K]) hash(key K) uint32 { return uint32(maphash.Comparable(t.seed, key)) }

// find returns the entry of key, which has this hash, or nil.
func (t *table[K]) find(key K, hash uint32) *entry[K] {
	if t.slots.Len() == 0 {
		return nil
	}
	for n, at := t.slots.Next(hash, hash); n != 0; n, at = t.slots.Next(hash, at) {
		if e := t.pool.at(id(n)); e.key == key {
			return e
		}
	}
	return nil
}

// get returns the entry of key, or nil.
func (t *table[K]) get(key K) *entry[K] { return t.find(key, t.hash(key)) }

// add adds e, whose key is not in the table, by its hash.
func (t *table[K]) add(e *entry[K]) {
	if size := t.slots.Size(); t.slots.Len() == hashtable.CapacityOf(size) {
		t.slots.Resize(max(minSlots, 2*size))
	}
	t.slots.Add(e.hash, uint32(e.id))
}

// remove removes e, which is in the table.
func (t *table[K]) remove(e *entry[K]) {
	t.slots.Remove(e.hash, uint32(e.id))
	if size := t.slots.Size(); size > 2*keep && 8*t.slots.Len() < size {
		t.slots.Resize(size / 2)
	}
}

// all iterates over all entries, in no order.
func (t *table[K]) all() iter.Seq[*entry[K]] {
	return func(yield func(*entry[K]) bool) {
		for _, n := range t.slots.All() {
			if !yield(t.pool.at(id(n))) {
				return
			}
		}
	}
}

// id is the number of an entry in its pool; 0 is none. It is half as long as a pointer, which matters when there are many keys,
// and the garbage collector need not follow it.
type id uint32

// pool holds the entries of a queue, in chunks that never move. A chunk without used entries is freed, unless there are only a few such
// chunks.
//
// Invariants, tested by check:
//
//  1. The entry at place i of chunk c has the id c*chunkSize+i. The entry with id 0 is never given out: it is always in use.
//  2. An entry is free or in use. In each chunk, used counts the entries in use, and free links the others by next. In all
//     chunks, n counts the entries in use, and size counts all.
//  3. A chunk is in the list open if and only if it has a free entry, and in the list gone if and only if it was freed.
//  4. The chunks without used entries have at most keep entries.
//  5. A free entry is zero except for its id, next, and details that are zero. plain is zero.
//  6. At most keepDetails+1 free entries have details of their own.
type pool[K comparable] struct {
	chunks  []chunk[K]
	open    int32 // the first chunk with a free entry, or noChunk
	gone    int32 // the first chunk that was freed, or noChunk
	n, size int32
	plain   details[K]   // of the entries that have none of their own
	details []details[K] // for entries that will need them
}

type chunk[K comparable] struct {
	entries    []entry[K] // nil if the chunk was freed
	used       int32
	free       id
	prev, next int32 // in open; in gone, only next
}

const noChunk = -1

// chunkSize is the number of entries in a chunk; the first few are smaller, because a queue may have few keys. If keys are
// strings, a chunk is 8 KiB, the unit in which Go manages memory.
const chunkSize = 128

// keepDetails is the number of free entries up to which an entry keeps its details when it becomes free.
const keepDetails = keep / 4

func newPool[K comparable]() *pool[K] { return &pool[K]{open: noChunk, gone: noChunk} }

// at returns the entry of an id, whose chunk must exist.
func (p *pool[K]) at(i id) *entry[K] { return &p.chunks[i/chunkSize].entries[i%chunkSize] }

// has reports whether the chunk of an id exists.
func (p *pool[K]) has(i id) bool { return int(i%chunkSize) < len(p.chunks[i/chunkSize].entries) }

// take returns an entry that was free.
func (p *pool[K]) take() *entry[K] {
	if p.open == noChunk {
		p.grow()
	}
	c := &p.chunks[p.open]
	e := &c.entries[c.free%chunkSize]
	c.free, e.next = e.next, 0
	c.used++
	p.n++
	if c.free == 0 {
		p.unlink(c)
	}
	return e
}

// give makes e free.
func (p *pool[K]) give(e *entry[K]) {
	number := int32(e.id / chunkSize)
	c := &p.chunks[number]
	if c.free == 0 {
		p.link(c, number)
	}
	d := e.details
	if d != &p.plain {
		*d = details[K]{}
		if p.size-p.n > keepDetails {
			d = &p.plain
		}
	}
	*e = entry[K]{id: e.id, next: c.free, details: d} // without the key, which may be large
	c.free = e.id
	c.used--
	p.n--
	if c.used == 0 && p.size-p.n > keep {
		p.unlink(c)
		p.size -= int32(len(c.entries))
		*c = chunk[K]{next: p.gone}
		p.gone = number
	}
}

// own returns the details of e, to be changed.
func (p *pool[K]) own(e *entry[K]) *details[K] {
	if e.details == &p.plain {
		if len(p.details) == 0 {
			p.details = make([]details[K], min(chunkSize, p.n))
		}
		e.details, p.details = &p.details[0], p.details[1:]
	}
	return e.details
}

// grow adds a chunk.
func (p *pool[K]) grow() {
	number := p.gone
	if number != noChunk {
		p.gone = p.chunks[number].next
	} else {
		if p.size > math.MaxInt32-chunkSize {
			panic("workqueue: more than 2,000,000,000 keys")
		}
		number = int32(len(p.chunks))
		p.chunks = append(p.chunks, chunk[K]{})
	}
	c := &p.chunks[number]
	*c = chunk[K]{entries: make([]entry[K], min(chunkSize, max(2, p.size)))}
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := &c.entries[i]
		e.id, e.details, e.next = id(number)*chunkSize+id(i), &p.plain, c.free
		c.free = e.id
	}
	p.size += int32(len(c.entries))
	p.link(c, number)
	if number == 0 {
		p.n, c.used, c.free, c.entries[0].next = 1, 1, 1, 0
	}
}

// link puts c in the list open.
func (p *pool[K]) link(c *chunk[K], number int32) {
	c.prev, c.next = noChunk, p.open
	if p.open != noChunk {
		p.chunks[p.open].prev = number
	}
	p.open = number
}

// unlink removes c from the list open.
func (p *pool[K]) unlink(c *chunk[K]) {
	if c.prev != noChunk {
		p.chunks[c.prev].next = c.next
	} else {
		p.open = c.next
	}
	if c.next != noChunk {
		p.chunks[c.next].prev = c.prev
	}
}
