package informer

import "github.com/setpoint-go/setpoint/cache"

// change is one step in the life of a key: what the cache held before, and what it holds after. A resync is one too.
type change[K comparable, T any] struct {
	key K
	old state[T]
	new state[T]

	tombstone cache.Tombstone[K, T] // how it went; only without a new state
}

// state is an object, or that there is none.
type state[T any] struct {
	object  T
	present bool
}

// backlog is what waits for a handler: for each key at most one item, in the order in which the keys began to wait. Its
// size is at most the number of objects that the handler knows plus the number of those that exist.
//
// It is not safe for concurrent use.
type backlog[K comparable, T any] struct {
	items       map[K]*item[K, T]
	first, last *item[K, T]
}

// item takes a handler from the state of a key that it knows to the one that is true.
//
// Invariants:
//
//  1. Something is to be told: known or now is present, and gone is set if known is and now is not.
//  2. gone is set only if known is present: what the handler never knew cannot go.
type item[K comparable, T any] struct {
	key       K
	known     state[T]              // what the handler was told last
	gone      bool                  // known has been deleted since
	tombstone cache.Tombstone[K, T] // how it was deleted; only if gone
	now       state[T]
	initial   bool // now was there when the handler joined, and known is not present

	before, after *item[K, T] // in order of waiting
}

// add merges c into what waits for its key. It reports whether that was an initial object that nobody will be told of
// now.
func (b *backlog[K, T]) add(c change[K, T], initial bool) (dropped bool) {
	it, waits := b.items[c.key]
	if !waits {
		it = &item[K, T]{key: c.key, known: c.old, initial: initial}
		b.append(it)
	}
	switch {
	case c.new.present:
		it.now = c.new
	case !it.known.present:
		b.remove(it) // it came and went
		return it.initial
	case it.gone:
		it.now = state[T]{} // another came and went; the tombstone stays that of the known one
	default:
		it.now, it.gone, it.tombstone = state[T]{}, true, c.tombstone
	}
	return false
}

// take removes and returns what has waited longest, or nil.
func (b *backlog[K, T]) take() *item[K, T] {
	it := b.first
	if it != nil {
		b.remove(it)
	}
	return it
}

// clear forgets everything.
func (b *backlog[K, T]) clear() {
	*b = backlog[K, T]{}
}

func (b *backlog[K, T]) append(it *item[K, T]) {
	if b.items == nil {
		b.items = make(map[K]*item[K, T])
	}
	b.items[it.key] = it
	it.before = b.last
	if b.last == nil {
		b.first = it
	} else {
		b.last.after = it
	}
	b.last = it
}

func (b *backlog[K, T]) remove(it *item[K, T]) {
	delete(b.items, it.key)
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
}
