package workqueue

import (
	"hash/maphash"
	"iter"
	"math"

	"github.com/setpoint-go/setpoint/internal/hashtable"
	"github.com/setpoint-go/setpoint/internal/outcome"
)

// State is the state of a key in a [Queue]. In the tables of the contract, which the documentation of Queue has, InProcess is "process", or
// "dirty" if the key was added since its dispatch. Delayed and Remembered are "absent".
type State uint8

const (
	Ready      State = iota + 1 // waits for a worker
	InProcess                   // was dispatched, and is not done
	Delayed                     // has a deadline and is in no other state
	Parked                      // has spent its budget
	Remembered                  // has no deadline and is in no other state, but its past failures or unfinished attempts count
)

// String returns the name of s.
func (s State) String() string {
	if s < Ready || s > Remembered {
		return "Unknown"
	}
	return [...]string{"Ready", "InProcess", "Delayed", "Parked", "Remembered"}[s-1]
}

// entry is the record of a key. If the key is a string, an entry takes 64 bytes, one cache line. Data that most keys never need is in its
// details. An entry stays at its address until it is removed from its table. It is in at most one list, or in the line.
type entry[K comparable] struct {
	key K // never changes

	// Neighbors in its list. In a free entry, next is the next free entry.
	prev, next id

	id          id
	hash        uint32 // of key
	deadline    uint32 // number of its deadline in the schedule; 0 if it has none
	state       State  // Delayed, even without a deadline, while a call that holds the lock has not decided; 0 if the entry is free
	dirty       bool   // in process, and added since
	spent       bool   // in process, and the latest failure spent its budget: it is parked when it is done
	raised      bool   // in process, and an addition since has brought its priority
	number      uint64 // of the latest change of its state: orders the ready entries, and identifies a dispatch
	wakeAt      int64  // the wake-up; 0 for none
	*details[K]        // read-only: table.edit returns details that can be changed
}

// details is data that few keys or configurations need. All other keys share the zero value.
type details[K comparable] struct {
	priority     int
	group        *group[K] // nil without groups
	retryAt      int64     // the backoff; 0 for none
	backoffUntil int64     // the end of the latest backoff, even if it was dropped or has passed: failures before it do not count; 0 for none
	quietUntil   int64     // the end of the quiet time; 0 for none
	quietLimit   int64     // the latest end of the quiet time, however many Adds come
	since        int64     // when it entered its state, if it is Parked or Remembered, or Timestamps is on
	addedAt      int64     // when it became ready, or dirty before that, if it is either and Timestamps is on
	failures     int32     // that count, since it was last forgotten
	requeues     int32     // all failures since then, for NumRequeues
	firstFailure int64     // the first of these
	reasons      *reasons
	unfinished   *outcome.Unfinished // nil for the zero value
}

// mustRemember reports whether e has something that outlasts its deadlines.
func (e *entry[K]) mustRemember() bool { return e.failures > 0 || e.unfinished != nil }

// resetFailures forgets the failures of e, and its attempts that did not finish.
func (e *entry[K]) resetFailures() {
	e.failures, e.requeues, e.firstFailure, e.backoffUntil, e.unfinished, e.spent = 0, 0, 0, 0, nil, false
}

// due returns the earliest deadline of e, 0 for none.
func (e *entry[K]) due() int64 {
	return int64(min(uint64(e.wakeAt)-1, uint64(e.retryAt)-1, uint64(e.quietUntil)-1) + 1) // 0 minus 1 is the greatest number
}

// nextAttempt returns the earlier of the wake-up and the backoff of e, 0 if it has neither.
func (e *entry[K]) nextAttempt() int64 {
	return int64(min(uint64(e.wakeAt)-1, uint64(e.retryAt)-1) + 1)
}

// isScheduled reports whether e is in the schedule.
func (e *entry[K]) isScheduled() bool { return e.deadline != 0 }

// rank orders Delayed entries that are due at the same time, and the entries of any other state by when they entered it.
func (e *entry[K]) rank() uint64 {
	if e.state == Delayed {
		return uint64(e.deadline)
	}
	return e.number
}

// groupName returns the name of the group of e, "" if it has none.
func (e *entry[K]) groupName() string {
	if e.group == nil {
		return ""
	}
	return e.group.name
}

// reasons are the latest reasons of a key, in a ring. A nil *reasons is empty.
type reasons struct {
	ring [maxReasons]Reason
	n    int // the number of reasons ever added
}

const maxReasons = 8

// add adds a reason. If there are too many then, the oldest is dropped.
func (r *reasons) add(reason Reason) {
	r.ring[r.n%maxReasons] = reason
	r.n++
}

// list returns a copy of the reasons, the oldest first.
func (r *reasons) list() []Reason {
	if r == nil {
		return nil
	}
	n := min(r.n, maxReasons)
	list := make([]Reason, n)
	for i := range list {
		list[i] = r.ring[(r.n-n+i)%maxReasons]
	}
	return list
}

// table has the entries of a queue, and finds them by key. Adding, finding, and removing an entry take constant time and hash the key once in
// all: a slot has the hash of its entry.
type table[K comparable] struct {
	pool  *pool[K]
	seed  maphash.Seed
	slots hashtable.Slots // the ids of the entries
}

// minSlots is the number of slots of a new table.
const minSlots = 4

// newTable returns an empty table.
func newTable[K comparable]() table[K] {
	return table[K]{pool: &pool[K]{open: noChunk, freed: noChunk}, seed: maphash.MakeSeed()}
}

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

// add returns a new entry for key, which has this hash and no entry. The caller sets its state and its number.
func (t *table[K]) add(key K, hash uint32) *entry[K] {
	e := t.pool.alloc()
	e.key, e.hash = key, hash
	if size := t.slots.Size(); t.slots.Len() == hashtable.CapacityOf(size) {
		t.slots.Resize(max(minSlots, 2*size))
	}
	t.slots.Add(hash, uint32(e.id))
	return e
}

// remove removes e, which is in no list, not in line, and not scheduled. The caller must not use e anymore.
func (t *table[K]) remove(e *entry[K]) {
	t.slots.Remove(e.hash, uint32(e.id))
	if size := t.slots.Size(); size > 2*keep && 8*t.slots.Len() < size {
		t.slots.Resize(size / 2)
	}
	t.pool.free(e)
}

// edit returns the details of e, to be changed.
func (t *table[K]) edit(e *entry[K]) *details[K] { return t.pool.edit(e) }

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

// list is a linked list of entries, first in, first out.
type list[K comparable] struct {
	pool        *pool[K]
	first, last id
	n           int
}

// newList returns an empty list for entries of t.
func (t *table[K]) newList() list[K] { return list[K]{pool: t.pool} }

// len returns the number of entries.
func (l *list[K]) len() int { return l.n }

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

// push adds e, which is in no list, at the end.
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

// id is the number of an entry in its pool; 0 is none. It is half as long as a pointer, which matters when there are many keys,
// and the garbage collector need not follow it.
type id uint32

// pool allocates the entries of a queue, in chunks that never move. A chunk without used entries is freed, unless there are only a few such
// chunks.
//
// Invariants, which CheckInvariants tests:
//
//  1. The entry at place i of chunk c has the id c*chunkSize+i. The entry with id 0 is never allocated: it is always in use.
//  2. An entry is free or in use. In each chunk, used counts the entries in use, and free links the others by next. In all
//     chunks, n counts the entries in use, and size counts all.
//  3. A chunk is in the list open if and only if it has a free entry, and in the list freed if and only if it was freed.
//  4. The chunks without used entries have at most keep entries.
//  5. A free entry is zero except for its id, next, and details that are zero. noDetails is zero.
//  6. At most keepDetails+1 free entries have details of their own.
type pool[K comparable] struct {
	chunks    []chunk[K]
	open      int32 // the first chunk with a free entry, or noChunk
	freed     int32 // the first chunk that was freed, or noChunk
	n, size   int32
	noDetails details[K]   // of the entries that have none of their own
	unused    []details[K] // for entries that will need them
}

type chunk[K comparable] struct {
	entries    []entry[K] // nil if the chunk was freed
	used       int32
	free       id
	prev, next int32 // in open; in freed, only next
}

const noChunk = -1

// chunkSize is the number of entries in a chunk; the first few are smaller, because a queue may have few keys. If keys are
// strings, a chunk is 8 KiB, the unit in which Go manages memory.
const chunkSize = 128

// keepDetails is the number of free entries up to which an entry keeps its details when it becomes free.
const keepDetails = keep / 4

// at returns the entry of an id, whose chunk must exist.
func (p *pool[K]) at(i id) *entry[K] { return &p.chunks[i/chunkSize].entries[i%chunkSize] }

// exists reports whether the chunk of an id exists.
func (p *pool[K]) exists(i id) bool { return int(i%chunkSize) < len(p.chunks[i/chunkSize].entries) }

// alloc returns an entry that was free.
func (p *pool[K]) alloc() *entry[K] {
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

// free makes e free.
func (p *pool[K]) free(e *entry[K]) {
	number := int32(e.id / chunkSize)
	c := &p.chunks[number]
	if c.free == 0 {
		p.link(c, number)
	}
	d := e.details
	if d != &p.noDetails {
		*d = details[K]{}
		if p.size-p.n > keepDetails {
			d = &p.noDetails
		}
	}
	*e = entry[K]{id: e.id, next: c.free, details: d} // without the key, which may be large
	c.free = e.id
	c.used--
	p.n--
	if c.used == 0 && p.size-p.n > keep {
		p.unlink(c)
		p.size -= int32(len(c.entries))
		*c = chunk[K]{next: p.freed}
		p.freed = number
	}
}

// edit returns the details of e, to be changed. It allocates them if e has none of its own.
func (p *pool[K]) edit(e *entry[K]) *details[K] {
	if e.details == &p.noDetails {
		if len(p.unused) == 0 {
			p.unused = make([]details[K], min(chunkSize, p.n))
		}
		e.details, p.unused = &p.unused[0], p.unused[1:]
	}
	return e.details
}

// grow adds a chunk.
func (p *pool[K]) grow() {
	number := p.freed
	if number != noChunk {
		p.freed = p.chunks[number].next
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
		e.id, e.details, e.next = id(number)*chunkSize+id(i), &p.noDetails, c.free
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
