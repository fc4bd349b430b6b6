package cache

import "time"

// sweep is how many values that have expired one call drops at most.
const sweep = 4

// aging holds values by key that live for the same time, the oldest first.
//
// Invariants:
//  1. The list from first to last holds exactly the values of byKey.
//  2. Deadlines do not fall along the list.
type aging[K comparable, V any] struct {
	ttl         time.Duration
	byKey       table[K, *aged[K, V]]
	first, last *aged[K, V]
}

type aged[K comparable, V any] struct {
	key        K
	v          V
	deadline   time.Time // the value is gone from here on
	prev, next *aged[K, V]
}

// get returns the value that has not expired, or nil.
func (a *aging[K, V]) get(key K, now time.Time) *aged[K, V] {
	if e := a.byKey.m[key]; e != nil && now.Before(e.deadline) {
		return e
	}
	return nil
}

// put stores v for the whole time to live, as the youngest.
func (a *aging[K, V]) put(key K, v V, now time.Time) {
	if e := a.byKey.m[key]; e != nil {
		a.drop(e)
	}
	e := &aged[K, V]{key: key, v: v, deadline: now.Add(a.ttl), prev: a.last}
	if e.prev != nil {
		e.prev.next = e
	} else {
		a.first = e
	}
	a.last = e
	a.byKey.put(key, e)
}

// drop takes e out, which must be in.
func (a *aging[K, V]) drop(e *aged[K, V]) {
	if e.prev != nil {
		e.prev.next = e.next
	} else {
		a.first = e.next
	}
	if e.next != nil {
		e.next.prev = e.prev
	} else {
		a.last = e.prev
	}
	delete(a.byKey.m, e.key)
	if a.byKey.wasteful() {
		a.byKey = a.byKey.smaller()
	}
}

// expire drops what has expired, limit values at most.
func (a *aging[K, V]) expire(now time.Time, limit int) {
	for ; limit > 0 && a.first != nil && !now.Before(a.first.deadline); limit-- {
		a.drop(a.first)
	}
}
