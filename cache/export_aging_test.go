package cache

import "fmt"

// Held returns the number of objects in memory, expired or not.
func (x *Expiring[K, T]) Held() int { return len(x.objs.byKey.m) }

// CheckInvariants compares the list with the map, and looks at the order.
func (x *Expiring[K, T]) CheckInvariants() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.objs.check()
}

// CheckInvariants compares the list with the map, and looks at the order and the limit.
func (o *Overlay[K, T]) CheckInvariants() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.writes.byKey.m); n > o.limit {
		return fmt.Errorf("%d writes, at most %d", n, o.limit)
	}
	return o.writes.check()
}

func (a *aging[K, V]) check() error {
	n := 0
	var prev *aged[K, V]
	for e := a.first; e != nil; prev, e = e, e.next {
		switch n++; {
		case a.byKey.m[e.key] != e || e.prev != prev:
			return fmt.Errorf("%v is not where it belongs", e.key)
		case prev != nil && e.deadline.Before(prev.deadline):
			return fmt.Errorf("%v is out of order", e.key)
		}
	}
	if n != len(a.byKey.m) || a.last != prev {
		return fmt.Errorf("%d in the list, %d in the map", n, len(a.byKey.m))
	}
	return nil
}
