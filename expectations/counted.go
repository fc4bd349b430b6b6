package expectations

import (
	"math"
	"time"
)

// Counted counts the creations and deletions of children that a key still expects. It cannot tell events apart: an event of another child
// may satisfy the key too early, and so may an event that is counted twice. If the controller chooses the names of the children, [Tracked]
// is exact.
//
// Expect first, then act: an event that arrives before its expectation is not counted, so the key waits until the expectation
// expires. Call [Counted.LowerExpectations], or the Observed methods, for writes that failed.
//
// A count never falls below zero: an unexpected event changes nothing, and does not count for a later expectation.
//
// Several goroutines may call its methods concurrently.
type Counted[K comparable] struct {
	book book[K, counts]
}

type counts struct {
	creations, deletions int
}

// NewCounted returns a Counted in which every key is satisfied.
func NewCounted[K comparable](cfg Config[K]) *Counted[K] {
	return &Counted[K]{book: newBook[K, counts](cfg)}
}

// SatisfiedExpectations reports whether key is not waiting: its expectations were observed or have expired, or it has none.
func (c *Counted[K]) SatisfiedExpectations(key K) bool {
	_, waiting := c.book.ask(key)
	return !waiting
}

// ExpectCreations adds n expected creations to key, and renews its TTL, also if n is 0. It panics if n is negative.
func (c *Counted[K]) ExpectCreations(key K, n int) { c.raise(key, counts{creations: n}, true) }

// ExpectDeletions adds n expected deletions to key, and renews its TTL, also if n is 0. It panics if n is negative.
func (c *Counted[K]) ExpectDeletions(key K, n int) { c.raise(key, counts{deletions: n}, true) }

// CreationObserved reports that a child of key was created, or will not be created.
func (c *Counted[K]) CreationObserved(key K) { c.LowerExpectations(key, 1, 0) }

// DeletionObserved reports that a child of key was deleted, or will not be deleted.
func (c *Counted[K]) DeletionObserved(key K) { c.LowerExpectations(key, 0, 1) }

// SetExpectations replaces the expectations of key, and renews its TTL. It panics if a number is negative.
func (c *Counted[K]) SetExpectations(key K, creations, deletions int) {
	n := counts{creations, deletions}
	n.check()
	defer c.book.unlock(c.book.lock())
	p := c.book.pageLocked(key)
	c.book.renewLocked(p)
	p.expected = n
	c.settleLocked(p)
}

// RaiseExpectations adds to the expectations of key. Unlike the Expect methods, it does not renew the TTL, which begins if key has
// no expectations yet. It panics if a number is negative.
func (c *Counted[K]) RaiseExpectations(key K, creations, deletions int) {
	c.raise(key, counts{creations, deletions}, false)
}

// LowerExpectations subtracts from the expectations of key, down to zero. It panics if a number is negative.
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

// DeleteExpectations forgets key. Call it when the object of key is deleted.
func (c *Counted[K]) DeleteExpectations(key K) { c.book.forget(key) }

// Name returns Config.Name.
func (c *Counted[K]) Name() string { return c.book.cfg.Name }

// Expires reports whether key waits, and when its expectations expire. It is the opposite of SatisfiedExpectations. If the TTL
// is negative, the time is zero.
func (c *Counted[K]) Expires(key K) (at time.Time, waiting bool) { return c.book.ask(key) }

// Notify adds a function that is called when a key that waits becomes satisfied. See the package documentation. It panics if f is nil.
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
	p.expected.creations = sum(p.expected.creations, n.creations)
	p.expected.deletions = sum(p.expected.deletions, n.deletions)
}

// sum returns a+b, or the greatest int if that is greater. Neither is negative.
func sum(a, b int) int { return a + min(b, math.MaxInt-a) }

// settleLocked removes p if it expects nothing.
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
