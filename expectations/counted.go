package expectations

import "time"

// Counted knows how many creations and deletions of its children a key still has to see. It cannot tell one event from
// another: an event that nobody waits for may satisfy it early, and so may one that is counted twice. Where the names
// of the children are chosen by the controller, [Tracked] is exact.
//
// Expect first, then act: an event that comes before the expectation is not counted, and is then missed until the
// expectation expires. Call [Counted.LowerExpectations], or the Observed methods, for what could not be done.
//
// A count never falls below zero: an event that is not expected changes nothing, and so does not make up for one that
// is expected later.
//
// All methods may be called by several goroutines at once.
type Counted[K comparable] struct {
	book book[K, counts]
}

type counts struct {
	creations, deletions int
}

// NewCounted returns a Counted in which every key is satisfied. Its error is nil: every Config is valid.
func NewCounted[K comparable](cfg Config[K]) (*Counted[K], error) {
	return &Counted[K]{book: newBook[K, counts](cfg)}, nil
}

// SatisfiedExpectations says whether key waits for nothing: all that it expected has been observed or has expired, or
// it has never expected anything.
func (c *Counted[K]) SatisfiedExpectations(key K) bool {
	_, waiting := c.book.ask(key)
	return !waiting
}

// ExpectCreations makes key expect n creations more, and lets its time begin anew, also if n is 0. It panics if n is negative.
func (c *Counted[K]) ExpectCreations(key K, n int) { c.raise(key, counts{creations: n}, true) }

// ExpectDeletions makes key expect n deletions more, and lets its time begin anew, also if n is 0. It panics if n is negative.
func (c *Counted[K]) ExpectDeletions(key K, n int) { c.raise(key, counts{deletions: n}, true) }

// CreationObserved tells that a child of key has been created, or that it will not be.
func (c *Counted[K]) CreationObserved(key K) { c.LowerExpectations(key, 1, 0) }

// DeletionObserved tells that a child of key has been deleted, or that it will not be.
func (c *Counted[K]) DeletionObserved(key K) { c.LowerExpectations(key, 0, 1) }

// SetExpectations replaces what key expects, and lets its time begin anew. It panics if a number is negative.
func (c *Counted[K]) SetExpectations(key K, creations, deletions int) {
	n := counts{creations, deletions}
	n.check()
	defer c.book.unlock(c.book.lock())
	p := c.book.pageLocked(key)
	c.book.renewLocked(p)
	p.expected = n
	c.settleLocked(p)
}

// RaiseExpectations makes key expect more. Unlike the Expect methods it does not prolong its time. It panics if a
// number is negative.
func (c *Counted[K]) RaiseExpectations(key K, creations, deletions int) {
	c.raise(key, counts{creations, deletions}, false)
}

// LowerExpectations makes key expect less, but not less than nothing. It panics if a number is negative.
func (c *Counted[K]) LowerExpectations(key K, creations, deletions int) {
	n := counts{creations, deletions}
	n.check()
	defer c.book.unlock(c.book.lock())
	if p := c.book.pages[key]; p != nil {
		p.expected.creations = max(0, p.expected.creations-n.creations)
		p.expected.deletions = max(0, p.expected.deletions-n.deletions)
		c.settleLocked(p)
	}
}

// DeleteExpectations forgets key. To be called when the object of key is gone.
func (c *Counted[K]) DeleteExpectations(key K) { c.book.forget(key) }

// Expires says whether key waits, and until when at the latest: it is SatisfiedExpectations the other way round, for those
// who hold a key back. With a negative TTL the time is zero.
func (c *Counted[K]) Expires(key K) (at time.Time, waiting bool) { return c.book.ask(key) }

// Notify has f called for each key of which Expires or SatisfiedExpectations has said that it waits, as soon as it waits
// no more because the last event was observed or taken back, or because the key was deleted. See the package documentation.
func (c *Counted[K]) Notify(f func(key K)) (stop func()) { return c.book.notify(f) }

func (c *Counted[K]) raise(key K, n counts, renew bool) {
	n.check()
	defer c.book.unlock(c.book.lock())
	if n == (counts{}) && c.book.pages[key] == nil {
		return // it expects nothing, before and after
	}
	p := c.book.pageLocked(key)
	if renew {
		c.book.renewLocked(p)
	}
	p.expected.creations += n.creations
	p.expected.deletions += n.deletions
}

// settleLocked removes p when it expects nothing.
func (c *Counted[K]) settleLocked(p *page[K, counts]) {
	if p.expected == (counts{}) {
		c.book.meetLocked(p)
	}
}

func (n counts) check() {
	if n.creations < 0 || n.deletions < 0 {
		panic("expectations: a number of expected events is negative")
	}
}
