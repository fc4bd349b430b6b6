package mutation

import (
	"iter"
	"time"

	"github.com/setpoint-go/setpoint/cache"
)

// All iterates over the objects, as [Cache.Get] returns them. Objects without a remembered write come first, in the order
// of the underlying cache. Then come the objects that this process wrote, the oldest write first. Each key comes at most
// once.
func (c *Cache[K, T]) All() iter.Seq2[K, T] {
	return c.merge(c.base.All(), func(T) bool { return true })
}

// ByIndex returns a reader that finds objects by an index, as [Cache.Get] returns them. A written object is found under its own values, and
// an object whose deletion was written is not found. ix must be an index of the cache that c wraps. Objects without a remembered write come
// first, in the order of ix. Then come the objects that this process wrote, the oldest write first.
func ByIndex[I, K comparable, T any](c *Cache[K, T], ix *cache.Index[I, K, T]) cache.IndexReader[I, K, T] {
	return index[I, K, T]{c, ix}
}

type index[I, K comparable, T any] struct {
	c    *Cache[K, T]
	base *cache.Index[I, K, T]
}

func (ix index[I, K, T]) All(value I) iter.Seq2[K, T] {
	return ix.c.merge(ix.base.All(value), func(obj T) bool { return ix.base.Has(obj, value) })
}

// merge yields the cached objects, or the written ones where the write is newer. has reports whether an object belongs to the result.
func (c *Cache[K, T]) merge(cached iter.Seq2[K, T], has func(T) bool) iter.Seq2[K, T] {
	return func(yield func(K, T) bool) {
		now := c.progress()
		keys, writes := c.all()
		listed := make(map[K]bool)
		for key, obj := range cached {
			if _, own := writes[key]; own {
				listed[key] = true
			} else if !yield(key, obj) {
				return
			}
		}
		for _, key := range keys {
			w := writes[key]
			if !listed[key] && (w.deleted || !has(w.obj)) {
				continue // neither the cache nor the write has it
			}
			if obj, ok := c.newer(key, w, now); ok && has(obj) && !yield(key, obj) {
				return
			}
		}
	}
}

// all returns the remembered writes and their keys, the oldest first.
func (c *Cache[K, T]) all() (keys []K, writes map[K]write[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes.expire(time.Now(), c.limit)
	writes = make(map[K]write[T], c.writes.Len())
	for e := range c.writes.All() {
		keys = append(keys, e.Key)
		writes[e.Key] = e.Value.v
	}
	return keys, writes
}
