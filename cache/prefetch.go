package cache

const (
	// minPrefetched is the size of the smallest hash table, 1 MiB, for which Prefetch does anything: what is smaller is in a
	// cache of the processor anyway.
	minPrefetched = 1 << 17

	// prefetchedAtOnce is the number of keys that are looked for side by side.
	prefetchedAtOnce = 64
)

// Prefetch makes calls for these keys that come soon, such as a batch of updates, faster when there are many objects. To find
// one among a million is to wait for memory three times, each time to learn where to look next; for many keys at once these
// waits overlap. It changes nothing, takes no lock, allocates nothing, and does nothing if there are less than about 50,000
// objects. A few hundred keys at a time are best: more may be forgotten by the processor before they are used.
func (x *Indexer[K, T]) Prefetch(keys []K) {
	objects := x.objects.Load()
	if len(objects.slots) < minPrefetched {
		return
	}
	for len(keys) > 1 { // one alone has nothing to overlap with
		n := min(len(keys), prefetchedAtOnce)
		objects.prefetch(keys[:n])
		keys = keys[n:]
	}
}

// prefetch reads what find does, but for all keys their slots first, then their items, then the keys of those: in each loop
// nothing depends on what was read for another key, so the processor goes ahead without waiting. It returns how many it has
// found, and must not be inlined: Prefetch has no use for that, and what is of no use is not read.
//
//go:noinline
func (a *arrivals[K, V]) prefetch(keys []K) (found int) {
	var hashes [prefetchedAtOnce]uint32
	var items [prefetchedAtOnce]*arrival[K, V]
	for i, key := range keys {
		hashes[i] = a.hash(key)
	}
	mask := len(a.slots) - 1
	for _, hash := range hashes[:len(keys)] {
		a.slots[int(hash)&mask].Load()
	}
	for i, hash := range hashes[:len(keys)] {
		items[i] = a.candidate(hash)
	}
	for i, key := range keys {
		if it := items[i]; it != nil && it.key == key {
			found++
		}
	}
	return found
}

// candidate returns the first item with this hash, or nil. It touches it.
func (a *arrivals[K, V]) candidate(hash uint32) *arrival[K, V] {
	mask := len(a.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := a.slots[i].Load()
		if s == 0 {
			return nil
		}
		if n := uint32(s) - 1; uint32(s>>32) == hash && n < a.used.Load() {
			it := a.at(n)
			it.gone.Load()
			return it
		}
	}
}
