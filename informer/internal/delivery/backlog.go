package delivery

// Change is a change of a key in the cache: its state before and after. A resync is a change too.
type Change[K comparable, T any] struct {
	Key  K
	Hash uint64 // of Key, by the seed of the listeners
	Old  State[T]
	New  State[T]

	Last   T    // the final state, if the object is deleted
	Missed bool // Last may not be the final state, because the deletion was missed
	Resync bool // Old and New are the same state, which is reported again
}

// State is an object, or its absence.
type State[T any] struct {
	Object  T
	Present bool
}

// backlog is the pending changes of a handler, in the order in which they were added. The changes of one key are merged to at most one
// item. So there is at most one item for each object that the handler knows or will get as initial, plus one for each object that exists.
// If every is set, there is an item for each change, and the size has no bound.
//
// A hash table with chains finds the item of a key. It takes a third of the time of a map, it shrinks, and each key is hashed once
// for all handlers.
//
// A backlog is not safe for concurrent use.
type backlog[K comparable, T any] struct {
	every       bool
	n           int
	chains      []*item[K, T] // by the low bits of the hash; a power of two of them; nil if every is set
	first, last *item[K, T]
	free        *item[K, T] // unused items, linked by chain; at most n or maxFree
	nfree       int
	made        int // items that were last allocated together, at most madeItems
	asks        []ask[K, T]
}

// Batch is the number of changes that are usually passed to Tell together.
const Batch = 256

const (
	// minChains is the size of the smallest table.
	minChains = 64

	// keptChains is the size up to which a table does not shrink: enough for a batch.
	keptChains = 2 * Batch

	// maxFree is the number of unused items that an empty backlog keeps.
	maxFree = Batch

	// madeItems is the number of items that are allocated together: 2 KiB if keys are strings and objects pointers. Their memory is
	// freed together, when none of them is used or kept.
	madeItems = 21
)

// item is the change of a key from the state that the handler knows to the current one.
//
// Invariants:
//
//  1. There is something to report: known or now is present, and gone is set if known is present and now is not.
//  2. gone is set only if known is present: the deletion of an object that the handler never knew is not reported.
type item[K comparable, T any] struct {
	key     K
	hash    uint64   // of key
	known   State[T] // the last state that was reported to the handler, or is in an earlier item
	now     State[T]
	last    T    // the final state of known; only if gone
	gone    bool // known has been deleted since
	missed  bool // the deletion was missed
	initial bool // now was in the cache when the handler joined, and known is not present
	resync  bool // known and now are the same state, which is reported again

	before, after *item[K, T] // in the order of the backlog
	chain         *item[K, T]
}

// add merges c into the item of its key.
func (b *backlog[K, T]) add(c *Change[K, T]) {
	var it *item[K, T]
	if !b.every {
		it = b.find(c.Hash, c.Key)
	}
	if it == nil {
		it = b.alloc()
		it.key, it.hash, it.known, it.resync = c.Key, c.Hash, c.Old, c.Resync
		b.append(it)
	} else if !c.Resync {
		it.resync = false
	}
	switch {
	case c.New.Present:
		it.now = c.New
	case !it.known.Present: // it was created and deleted
		b.remove(it)
		b.release(it)
	case it.gone:
		it.now = State[T]{} // a second object was created and deleted; last stays that of the known one
	default:
		it.now, it.gone, it.last, it.missed = State[T]{}, true, c.Last, c.Missed
	}
}

// forgetKnown records that the handler never knew the deleted object.
func (b *backlog[K, T]) forgetKnown(it *item[K, T]) {
	if !it.now.Present {
		b.remove(it)
		b.release(it)
		return
	}
	var none T
	it.known, it.gone, it.last, it.missed = State[T]{}, false, none, false
}

// take removes and returns the first item, or nil. The caller releases it.
func (b *backlog[K, T]) take() *item[K, T] {
	it := b.first
	if it != nil {
		b.remove(it)
	}
	return it
}

// clear removes all items.
func (b *backlog[K, T]) clear() {
	*b = backlog[K, T]{every: b.every}
}

// alloc returns a zero item.
func (b *backlog[K, T]) alloc() *item[K, T] {
	if b.free == nil {
		b.made = min(max(2*b.made, 3), madeItems) // many handlers get only a few objects
		items := make([]item[K, T], b.made)
		for i := range items {
			items[i].chain = b.free
			b.free = &items[i]
		}
		b.nfree = b.made
	}
	it := b.free
	b.free, it.chain = it.chain, nil
	b.nfree--
	return it
}

// release takes an item back. A handler that lags soon needs as many items again as are pending, so the backlog keeps that many.
func (b *backlog[K, T]) release(it *item[K, T]) {
	*it = item[K, T]{} // items allocated with it may keep its memory
	if b.nfree < max(b.n, maxFree) {
		it.chain, b.free = b.free, it
		b.nfree++
	} else if b.nfree > maxFree {
		b.alloc() // drop another one: the backlog has become shorter
	}
}

func (b *backlog[K, T]) find(hash uint64, key K) *item[K, T] {
	if len(b.chains) == 0 {
		return nil
	}
	it := b.chains[hash&uint64(len(b.chains)-1)]
	for it != nil && (it.hash != hash || it.key != key) {
		it = it.chain
	}
	return it
}

func (b *backlog[K, T]) append(it *item[K, T]) {
	b.n++
	if !b.every {
		if b.n > len(b.chains) {
			b.rehash(max(2*len(b.chains), minChains))
		}
		place := &b.chains[it.hash&uint64(len(b.chains)-1)]
		it.chain, *place = *place, it
	}
	it.before = b.last
	if b.last == nil {
		b.first = it
	} else {
		b.last.after = it
	}
	b.last = it
}

func (b *backlog[K, T]) remove(it *item[K, T]) {
	for i := range b.asks {
		if b.asks[i].last == it {
			b.asks[i].last = it.before
		}
	}
	b.n--
	if it.before == nil {
		b.first = it.after
	} else {
		it.before.after = it.after
	}
	if it.after == nil {
		b.last = it.before
	} else {
		it.after.before = it.before
	}
	it.before, it.after = nil, nil
	if b.every {
		return
	}
	place := &b.chains[it.hash&uint64(len(b.chains)-1)]
	for *place != it {
		place = &(*place).chain
	}
	*place, it.chain = it.chain, nil
	if len(b.chains) > keptChains && b.n < len(b.chains)/8 {
		b.rehash(len(b.chains) / 2)
	}
}

// rehash makes a table of the given size from the list.
func (b *backlog[K, T]) rehash(size int) {
	b.chains = make([]*item[K, T], size)
	for it := b.first; it != nil; it = it.after {
		place := &b.chains[it.hash&uint64(size-1)]
		it.chain, *place = *place, it
	}
}
