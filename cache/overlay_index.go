package cache

import (
	"iter"
	"slices"
	"time"
)

// ByIndex iterates over the objects that have the given value of an index, as [Overlay.Get] shows them: a write that is
// newer than what the cache has is found under its own values, and an object whose deletion was written is not found. The
// index must be one of the cache under o. It is client-go's MutationCache.ByIndex.
//
// What no write concerns comes first, as in [Index.All]. Then come the objects that this process wrote, the oldest write
// first. Each key comes at most once.
func ByIndex[I, K comparable, T any](o *Overlay[K, T], ix *Index[I, K, T], value I) iter.Seq2[K, T] {
	return func(yield func(K, T) bool) {
		came := o.progress()
		keys, writes := o.all()
		listed := make(map[K]bool)
		for key, obj := range ix.All(value) {
			if _, own := writes[key]; own {
				listed[key] = true
			} else if !yield(key, obj) {
				return
			}
		}
		for _, key := range keys {
			w := writes[key]
			if !listed[key] && (w.gone || !ix.has(w.obj, value)) {
				continue // neither the cache nor the write has it
			}
			if obj, ok := o.newer(key, w, came); ok && ix.has(obj, value) && !yield(key, obj) {
				return
			}
		}
	}
}

// has reports whether obj has the given value.
func (ix *Index[I, K, T]) has(obj T, value I) bool { return slices.Contains(ix.values(obj), value) }

// all returns the writes that are remembered, and their keys, the oldest first.
func (o *Overlay[K, T]) all() (keys []K, writes map[K]ownWrite[T]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes.expire(time.Now(), o.limit)
	writes = make(map[K]ownWrite[T], o.writes.n)
	for e := range o.writes.all() {
		keys = append(keys, e.key)
		writes[e.key] = e.v.v
	}
	return keys, writes
}
