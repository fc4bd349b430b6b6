package informer

// change is one step in the life of a key: what the cache held before, and what it holds after. A resync is one too.
type change[K comparable, T any] struct {
	key  K
	hash uint64 // of key
	old  state[T]
	new  state[T]

	last   T    // the final state, if there is no new one
	missed bool // last may not be the final state, because nobody saw it go
}

// state is an object, or that there is none.
type state[T any] struct {
	object  T
	present bool
}

// backlog is what waits for a handler, in the order in which it began to wait: for each key at most one item, so that
// its size is at most the number of objects that the handler knows, or is still to be told of as initial, plus the number
// of those that exist. If every is set, there is one for each change, and the size has no bound.
//
// Items are found by the hash of their key, in chains of a table of its own: it costs a third of a map, it gives its memory
// back, and each key is hashed once for all handlers.
//
// It is not safe for concurrent use.
type backlog[K comparable, T any] struct {
	every       bool
	n           int
	chains      []*item[K, T] // by the low bits of the hash; a power of two of them; nil if every is set
	first, last *item[K, T]
	free        *item[K, T] // items for use again, linked by chain; at most as many as wait, or maxFree
	nfree       int
}

const (
	// minChains is the size of the smallest table.
	minChains = 64

	// keptChains is the size of a table that is kept when it is not needed: that of a batch.
	keptChains = 2 * maxBatch

	// maxFree is the number of items that are kept for use again when nothing waits.
	maxFree = maxBatch

	// madeItems is the number of items that are made at once: 2 KiB if keys are strings and objects pointers. Their memory is
	// given back together, when none of them is used or kept.
	madeItems = 21
)

// item takes a handler from the state of a key that it knows to the one that is true.
//
// Invariants:
//
//  1. Something is to be told: known or now is present, and gone is set if known is and now is not.
//  2. gone is set only if known is present: what the handler never knew cannot go.
type item[K comparable, T any] struct {
	key     K
	hash    uint64   // of key
	known   state[T] // what the handler was told last, or will have been
	now     state[T]
	last    T    // the final state of known; only if gone
	gone    bool // known has been deleted since
	missed  bool // nobody saw it go
	initial bool // now was there when the handler joined, and known is not present

	before, after *item[K, T] // in order of waiting
	chain         *item[K, T]
}

// add merges c into what waits for its key.
func (b *backlog[K, T]) add(c *change[K, T]) {
	var it *item[K, T]
	if !b.every {
		it = b.find(c.hash, c.key)
	}
	if it == nil {
		it = b.alloc()
		it.key, it.hash, it.known = c.key, c.hash, c.old
		b.append(it)
	}
	switch {
	case c.new.present:
		it.now = c.new
	case !it.known.present: // it came and went
		b.remove(it)
		b.release(it)
	case it.gone:
		it.now = state[T]{} // another came and went; the last state stays that of the known one
	default:
		it.now, it.gone, it.last, it.missed = state[T]{}, true, c.last, c.missed
	}
}

// forgetKnown notes that the handler has never known what is gone.
func (b *backlog[K, T]) forgetKnown(it *item[K, T]) {
	if !it.now.present {
		b.remove(it)
		b.release(it)
		return
	}
	var none T
	it.known, it.gone, it.last, it.missed = state[T]{}, false, none, false
}

// take removes and returns what has waited longest, or nil. It is to be released.
func (b *backlog[K, T]) take() *item[K, T] {
	it := b.first
	if it != nil {
		b.remove(it)
	}
	return it
}

// clear forgets everything.
func (b *backlog[K, T]) clear() {
	*b = backlog[K, T]{every: b.every}
}

// alloc returns an item that is zero.
func (b *backlog[K, T]) alloc() *item[K, T] {
	if b.free == nil {
		items := new([madeItems]item[K, T])
		for i := range items {
			items[i].chain = b.free
			b.free = &items[i]
		}
		b.nfree = madeItems
	}
	it := b.free
	b.free, it.chain = it.chain, nil
	b.nfree--
	return it
}

// release takes back an item that was taken. A handler that is behind needs as many again, so as many are kept as wait.
func (b *backlog[K, T]) release(it *item[K, T]) {
	*it = item[K, T]{} // others may keep its memory
	if b.nfree < max(b.n, maxFree) {
		it.chain, b.free = b.free, it
		b.nfree++
	} else if b.nfree > maxFree {
		b.alloc() // and let go of it: less waits than did
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

// rehash makes a table of the given size of what is in the list.
func (b *backlog[K, T]) rehash(size int) {
	b.chains = make([]*item[K, T], size)
	for it := b.first; it != nil; it = it.after {
		place := &b.chains[it.hash&uint64(size-1)]
		it.chain, *place = *place, it
	}
}
