package workqueue

import "math"

// id is the number of an entry in its pool. It is half as long as a pointer, which counts where there are many keys, and the
// garbage collector need not follow it. 0 is none.
type id uint32

// pool has the entries of a queue, in chunks that never move. A chunk of which nothing is used is given back, unless there are
// few of them.
//
// Invariants, which check tests:
//
//  1. The entry in place i of chunk c has the id c*chunkSize+i. That of id 0 is never given out: it is always in use.
//  2. An entry is free or in use. Of each chunk used counts those in use; the others are linked from free on, by next. Of all
//     chunks n counts those in use, and size all.
//  3. A chunk is in the list open if and only if something of it is free, in the list gone if and only if it was given back.
//  4. The chunks of which nothing is used have at most keep entries.
//  5. A free entry is zero, but for its id and next, and for details that it may have but that say nothing. plain says nothing.
//  6. At most keepDetails+1 free entries have details of their own.
type pool[K comparable] struct {
	chunks  []chunk[K]
	open    int32 // the first of the chunks with something free; noChunk for none
	gone    int32 // the first of the chunks that were given back
	n, size int32
	plain   details[K]   // of entries that have none of their own
	details []details[K] // for those that will have
}

// chunk is some entries, and how much of them is in use.
type chunk[K comparable] struct {
	entries    []entry[K] // nil if they were given back
	used       int32
	free       id
	prev, next int32 // in open; in gone only next
}

const noChunk = -1

// chunkSize is the number of entries in a chunk, but the first few are smaller: a queue may have few keys. If they are strings,
// a chunk is 8 KiB, in which Go manages its memory as well.
const chunkSize = 128

// keepDetails is the number of free entries up to which one that becomes free keeps its details.
const keepDetails = keep / 4

func newPool[K comparable]() *pool[K] { return &pool[K]{open: noChunk, gone: noChunk} }

// at returns the entry of an id, whose chunk is there.
func (p *pool[K]) at(i id) *entry[K] { return &p.chunks[i/chunkSize].entries[i%chunkSize] }

// has reports whether the chunk of an id is there.
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

// link puts a chunk in the list of those with something free.
func (p *pool[K]) link(c *chunk[K], number int32) {
	c.prev, c.next = noChunk, p.open
	if p.open != noChunk {
		p.chunks[p.open].prev = number
	}
	p.open = number
}

// unlink takes a chunk out of that list.
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
