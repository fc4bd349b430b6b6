package informer

// change is a change of a key in the cache: its state before and after. A resync is a change too.
type change[K comparable, T any] struct {
	key      K
	hash     uint64 // of key, by applier.seed
	old, new state[T]

	final  T    // the last state, if the object was deleted
	missed bool // final may not be the last state, because the deletion was missed
	resync bool // old and new are the same state, which is reported again

	initial bool // the object is new, and came with its slot
	dropped bool // the object is not deleted: its slot was dropped
}

// state is an object, or its absence.
type state[T any] struct {
	object  T
	present bool
}

// backlog is the pending changes of a handler, in the order in which they were added. The changes of one key are merged to at most one
// item. So there is at most one item for each object that was reported to the handler or will be reported as initial, plus one for each object
// that exists.
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
	flushes     []flush[K, T]
}

const (
	// minChains is the size of the smallest table.
	minChains = 64

	// keptChains is the size up to which a table does not shrink: enough for a batch.
	keptChains = 2 * maxBatch

	// maxFree is the number of unused items that an empty backlog keeps.
	maxFree = maxBatch

	// madeItems is the number of items that are allocated together: 2 KiB if keys are strings and objects pointers. Their memory is
	// freed together, when none of them is used or kept.
	madeItems = 21
)

// item is the change of a key from the state that was last reported to the handler to the present one.
//
// Invariants:
//
//  1. There is something to report: reported or now is present, and deleted is set if reported is present and now is not.
//  2. deleted is set only if reported is present: the deletion of an object that was never reported to the handler is not reported.
type item[K comparable, T any] struct {
	key      K
	hash     uint64   // of key
	reported state[T] // the last state that was reported to the handler, or is in an earlier item
	now      state[T]
	final    T    // the last state of the reported object; only if deleted
	deleted  bool // the reported object was deleted since
	missed   bool // the deletion was missed
	dropped  bool // deleted is set, but the reported object left with its slot
	initial  bool // now was in the cache when the handler joined, or came with its slot, and reported is not present or deleted is set
	resync   bool // reported and now are the same state, which is reported again

	before, after *item[K, T] // in the order of the backlog
	chain         *item[K, T]
}

// itemOf returns the item of one change.
func itemOf[K comparable, T any](c *change[K, T]) item[K, T] {
	return item[K, T]{
		key: c.key, hash: c.hash, reported: c.old, now: c.new, resync: c.resync, initial: c.initial,
		deleted: c.old.present && !c.new.present, final: c.final, missed: c.missed, dropped: c.dropped,
	}
}

// add merges c into the item of its key.
func (b *backlog[K, T]) add(c *change[K, T]) {
	var it *item[K, T]
	if !b.every {
		it = b.find(c.hash, c.key)
	}
	if it == nil {
		it = b.alloc()
		it.key, it.hash, it.reported, it.resync = c.key, c.hash, c.old, c.resync
		b.append(it)
	} else if !c.resync {
		it.resync = false
	}
	switch {
	case c.new.present:
		if it.now = c.new; !c.old.present {
			it.initial = c.initial
		}
	case !it.reported.present: // it was created and deleted
		b.remove(it)
		b.release(it)
	case it.deleted && !it.dropped:
		it.now = state[T]{} // a second object was created and deleted; final stays that of the reported one
	default:
		it.now, it.deleted, it.final, it.missed, it.dropped = state[T]{}, true, c.final, c.missed, c.dropped
	}
}

// forgetReported records that the deleted object was never reported to the handler.
func (b *backlog[K, T]) forgetReported(it *item[K, T]) {
	if !it.now.present {
		b.remove(it)
		b.release(it)
		return
	}
	var none T
	it.reported, it.deleted, it.final, it.missed, it.dropped = state[T]{}, false, none, false, false
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
	for i := range b.flushes {
		if b.flushes[i].last == it {
			b.flushes[i].last = it.before
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
