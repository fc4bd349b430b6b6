package cache

import (
	"iter"
	"math"
	"sync"
	"time"
)

// Expiring holds objects by key for a limited time after they were last stored. Who asks for an object that has expired
// does not find it.
//
// It has no goroutine and no timer. Each Upsert, Get and Delete drops a few objects that have expired, so that the
// memory is given back as the store is used; [Expiring.Len] and [Expiring.All] drop all of them. Objects are shared with
// the caller, never copied.
//
// All methods may be called by several goroutines at once.
type Expiring[K comparable, T any] struct {
	key KeyFunc[K, T]

	mu   sync.Mutex // guards the following
	objs aging[K, T]
}

// NewExpiring returns an empty store whose objects expire when ttl has passed since they were last stored. It panics
// when there is no key function, or ttl is not positive.
func NewExpiring[K comparable, T any](key KeyFunc[K, T], ttl time.Duration) *Expiring[K, T] {
	if key == nil {
		panic("cache: NewExpiring: the key function is nil")
	}
	if ttl <= 0 {
		panic("cache: NewExpiring: the time to live is not positive")
	}
	return &Expiring[K, T]{key: key, objs: newAging[K, T](ttl)}
}

// Get returns the object with the given key, unless it has expired. Reading does not make it live longer.
func (x *Expiring[K, T]) Get(key K) (obj T, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.objs.expire(now, sweep)
	if e := x.objs.alive(key, now); e != nil {
		return e.v.v, true
	}
	return obj, false
}

// Upsert stores obj for the whole time to live, in the place of the object with the same key if there is one that has
// not expired, which it returns.
func (x *Expiring[K, T]) Upsert(obj T) (old T, existed bool) {
	key := x.key(obj)
	checkKey(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.objs.expire(now, sweep)
	if e := x.objs.alive(key, now); e != nil {
		old, existed = e.v.v, true
	}
	x.objs.put(key, obj, now)
	return old, existed
}

// Delete removes the object with the given key, and returns it. There need not be one.
func (x *Expiring[K, T]) Delete(key K) (old T, existed bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.objs.expire(now, sweep)
	e := x.objs.alive(key, now)
	if e == nil {
		return old, false
	}
	old = e.v.v
	x.objs.remove(e)
	return old, true
}

// Len returns the number of objects that have not expired.
func (x *Expiring[K, T]) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.objs.expire(time.Now(), math.MaxInt)
	return x.objs.n
}

// All iterates over the objects that have not expired when the loop begins, as they were then, the one that was stored
// longest ago first. It copies them; no lock is held while the loop's body runs.
func (x *Expiring[K, T]) All() iter.Seq2[K, T] {
	return func(yield func(K, T) bool) {
		for _, e := range x.live() {
			if !yield(e.key, e.v.v) {
				return
			}
		}
	}
}

// live returns copies of the nodes that have not expired.
func (x *Expiring[K, T]) live() []node[K, aged[T]] {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.objs.expire(time.Now(), math.MaxInt)
	live := make([]node[K, aged[T]], 0, x.objs.n)
	for e := range x.objs.all() {
		live = append(live, *e)
	}
	return live
}
