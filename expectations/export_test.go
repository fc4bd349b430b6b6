package expectations

import (
	"fmt"
	"time"
)

func (c *Counted[K]) CheckInvariants() error     { return c.book.check() }
func (t *Tracked[K, ID]) CheckInvariants() error { return t.book.check() }

func (v *Values[K]) CheckInvariants() error { return v.book.check() }

func (v *Versions[K]) CheckInvariants() error {
	for i, p := range v.next {
		if p.expected.place != i || v.book.pages[p.key] != p || p.expected.version <= v.seen || v.Less(i) {
			return fmt.Errorf("the page of %v is out of place", p.key)
		}
	}
	if len(v.next) != len(v.book.pages) {
		return fmt.Errorf("%d pages by version, %d by key", len(v.next), len(v.book.pages))
	}
	return v.book.check()
}

// Less says whether the page at place i of the heap is before the one above it.
func (v *Versions[K]) Less(i int) bool { return v.next.Less(i, (i-1)/2) }

// Peek is Expires without its effects. It also reports whether a caller of Expires waits.
func (c *Counted[K]) Peek(key K) (at time.Time, waiting, asked bool)     { return c.book.peek(key) }
func (t *Tracked[K, ID]) Peek(key K) (at time.Time, waiting, asked bool) { return t.book.peek(key) }
func (v *Versions[K]) Peek(key K) (at time.Time, waiting, asked bool)    { return v.book.peek(key) }

func (v *Values[K]) Peek(key K) (at time.Time, waiting, asked bool) { return v.book.peek(key) }

func (b *book[K, E]) peek(key K) (at time.Time, waiting, asked bool) {
	defer b.unlock(b.lock())
	if p := b.pages[key]; p != nil {
		return p.expires, true, p.asked
	}
	return time.Time{}, false, false
}

func (c *Counted[K]) Len() int     { return len(c.book.pages) }
func (t *Tracked[K, ID]) Len() int { return len(t.book.pages) }
func (v *Versions[K]) Len() int    { return len(v.book.pages) }
func (v *Values[K]) Len() int      { return len(v.book.pages) }

// Room returns for how many keys there is room.
func (c *Counted[K]) Room() int  { return c.book.peak }
func (v *Versions[K]) Room() int { return cap(v.next) }

func (b *book[K, E]) check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	var last *page[K, E]
	for p := b.oldest; p != nil; last, p = p, p.newer {
		n++
		switch {
		case b.pages[p.key] != p:
			return fmt.Errorf("the page of %v is not found by its key", p.key)
		case p.older != last:
			return fmt.Errorf("the page of %v does not know the one before it", p.key)
		case last != nil && p.expires.Before(last.expires):
			return fmt.Errorf("the page of %v expires before that of %v, which is older", p.key, last.key)
		case p.expires.IsZero() != (b.cfg.TTL < 0):
			return fmt.Errorf("the page of %v expires at %v", p.key, p.expires)
		}
	}
	if len(b.met) > 0 {
		return fmt.Errorf("%v are satisfied, and no listener was called", b.met)
	}
	if b.newest != last || n != len(b.pages) || n > b.peak {
		return fmt.Errorf("%d pages in order, %d by key, at most %d", n, len(b.pages), b.peak)
	}
	return nil
}
