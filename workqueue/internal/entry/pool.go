package entry

import "math"

// keep is the number of keys for which a queue keeps its memory after a burst.
const keep = 4096

// id is the number of an entry in its pool; 0 is none. It is half as long as a pointer, which matters when there are many keys,
// and the garbage collector need not follow it.
type id uint32

// pool holds the entries of a queue, in chunks that never move. A chunk without used entries is freed, unless there are only a few such
// chunks.
//
// Invariants, which Table.Check tests:
//
//  1. The entry at place i of chunk c has the id c*ChunkSize+i. The entry with id 0 is never given out: it is always in use.
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
	plain   Details[K]   // of the entries that have none of their own
	details []Details[K] // for entries that will need them
}

type chunk[K comparable] struct {
	entries    []Entry[K] // nil if the chunk was freed
	used       int32
	free       id
	prev, next int32 // in open; in gone, only next
}

const noChunk = -1

// ChunkSize is the number of entries in a chunk; the first few are smaller, because a queue may have few keys. If keys are
// strings, a chunk is 8 KiB, the unit in which Go manages memory.
const ChunkSize = 128

// keepDetails is the number of free entries up to which an entry keeps its details when it becomes free.
const keepDetails = keep / 4

func newPool[K comparable]() *pool[K] { return &pool[K]{open: noChunk, gone: noChunk} }

// at returns the entry of an id, whose chunk must exist.
func (p *pool[K]) at(i id) *Entry[K] { return &p.chunks[i/ChunkSize].entries[i%ChunkSize] }

// has reports whether the chunk of an id exists.
func (p *pool[K]) has(i id) bool { return int(i%ChunkSize) < len(p.chunks[i/ChunkSize].entries) }

// take returns an entry that was free.
func (p *pool[K]) take() *Entry[K] {
	if p.open == noChunk {
		p.grow()
	}
	c := &p.chunks[p.open]
	e := &c.entries[c.free%ChunkSize]
	c.free, e.next = e.next, 0
	c.used++
	p.n++
	if c.free == 0 {
		p.unlink(c)
	}
	return e
}

// give makes e free.
func (p *pool[K]) give(e *Entry[K]) {
	number := int32(e.id / ChunkSize)
	c := &p.chunks[number]
	if c.free == 0 {
		p.link(c, number)
	}
	d := e.Details
	if d != &p.plain {
		*d = Details[K]{}
		if p.size-p.n > keepDetails {
			d = &p.plain
		}
	}
	*e = Entry[K]{id: e.id, next: c.free, Details: d} // without the key, which may be large
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

// own returns the details of e, to be changed. It makes them if e has none of its own.
func (p *pool[K]) own(e *Entry[K]) *Details[K] {
	if e.Details == &p.plain {
		if len(p.details) == 0 {
			p.details = make([]Details[K], min(ChunkSize, p.n))
		}
		e.Details, p.details = &p.details[0], p.details[1:]
	}
	return e.Details
}

// grow adds a chunk.
func (p *pool[K]) grow() {
	number := p.gone
	if number != noChunk {
		p.gone = p.chunks[number].next
	} else {
		if p.size > math.MaxInt32-ChunkSize {
			panic("workqueue: more than 2,000,000,000 keys")
		}
		number = int32(len(p.chunks))
		p.chunks = append(p.chunks, chunk[K]{})
	}
	c := &p.chunks[number]
	*c = chunk[K]{entries: make([]Entry[K], min(ChunkSize, max(2, p.size)))}
	for i := len(c.entries) - 1; i >= 0; i-- {
		e := &c.entries[i]
		e.id, e.Details, e.next = id(number)*ChunkSize+id(i), &p.plain, c.free
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
