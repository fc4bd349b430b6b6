package cache

import "fmt"

// Held returns the number of objects in memory, expired or not.
func (x *Expiring[K, T]) Held() int { return x.objs.n }

// CheckInvariants looks at the line and at the order in it.
func (x *Expiring[K, T]) CheckInvariants() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objs.checkAges()
}

// CheckInvariants looks at the line, at the order in it and at the limit.
func (o *Overlay[K, T]) CheckInvariants() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := o.writes.n; n > o.limit {
		return fmt.Errorf("%d writes, at most %d", n, o.limit)
	}
	return o.writes.checkAges()
}

func (a *aging[K, V]) checkAges() error {
	for e := a.first; e != nil && e.next != nil; e = e.next {
		if e.next.v.deadline.Before(e.v.deadline) {
			return fmt.Errorf("%v is out of order", e.next.key)
		}
	}
	return a.check()
}

// check looks for every node in the way that get does.
func (l *line[K, V]) check() error {
	n, slots := 0, 0
	var prev *node[K, V]
	for e := l.first; e != nil; prev, e = e, e.next {
		n++
		if l.find(e.key, e.hash) != e || e.hash != l.hash(e.key) || e.prev != prev {
			return fmt.Errorf("%v is not where it belongs", e.key)
		}
	}
	for _, s := range l.slots {
		if s.node != nil {
			slots++
			if s.hash != s.node.hash {
				return fmt.Errorf("%v has two hashes", s.node.key)
			}
		}
	}
	if n != l.n || l.last != prev || slots != n || 5*n > 4*len(l.slots) || len(l.slots) > max(minSlotsKept, 16*n) {
		return fmt.Errorf("%d in the list, %d in %d slots, counted as %d", n, slots, len(l.slots), l.n)
	}
	return nil
}
