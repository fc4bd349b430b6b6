package cache

import (
	"hash/maphash"
	"time"
)

// sweep is how many values that have expired one call drops at most.
const sweep = 4

// aging holds values by key that live for the same time, the oldest first: deadlines do not fall along the line.
type aging[K comparable, V any] struct {
	ttl time.Duration
	line[K, aged[V]]
}

type aged[V any] struct {
	v        V
	deadline time.Time // the value is gone from here on
}

func newAging[K comparable, V any](ttl time.Duration) aging[K, V] {
	return aging[K, V]{ttl: ttl, line: newLine[K, aged[V]](maphash.MakeSeed())}
}

// alive returns the value that has not expired, or nil.
func (a *aging[K, V]) alive(key K, now time.Time) *node[K, aged[V]] {
	if e := a.get(key); e != nil && now.Before(e.v.deadline) {
		return e
	}
	return nil
}

// put stores v for the whole time to live, as the youngest.
func (a *aging[K, V]) put(key K, v V, now time.Time) {
	hash := a.hash(key)
	if e := a.find(key, hash); e != nil {
		a.remove(e)
	}
	e, _ := a.push(key, hash)
	e.v = aged[V]{v, now.Add(a.ttl)}
}

// expire drops what has expired, limit values at most.
func (a *aging[K, V]) expire(now time.Time, limit int) {
	for e := a.first(); limit > 0 && e != nil && !now.Before(e.v.deadline); e = a.first() {
		a.remove(e)
		limit--
	}
}
