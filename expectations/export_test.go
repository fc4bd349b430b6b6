package expectations

import "fmt"

func (c *Counted[K]) CheckInvariants() error     { return c.book.check() }
func (t *Tracked[K, ID]) CheckInvariants() error { return t.book.check() }
func (v *Versions[K]) CheckInvariants() error    { return v.book.check() }

func (c *Counted[K]) Len() int     { return len(c.book.pages) }
func (t *Tracked[K, ID]) Len() int { return len(t.book.pages) }
func (v *Versions[K]) Len() int    { return len(v.book.pages) }

// Room returns for how many keys there is room.
func (c *Counted[K]) Room() int { return c.book.peak }

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
	if b.newest != last || n != len(b.pages) || n > b.peak {
		return fmt.Errorf("%d pages in order, %d by key, at most %d", n, len(b.pages), b.peak)
	}
	return nil
}
