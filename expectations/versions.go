package expectations

import "time"

// Versions knows which version of a source a key must see before it can trust a cache of that source: the version of
// its own last write. It is the simplest and the most exact of the three, and counts nothing, but needs a source whose
// writes return a version, and a cache that knows how far it has come. A controller that writes to several sources has
// one Versions for each.
//
// The order does not matter: the write may come first, and the cache may see it before ExpectVersion is called.
//
// All methods may be called by several goroutines at once.
type Versions[K comparable] struct {
	book book[K, uint64]
	seen uint64 // guarded by book.mu: the highest version that Satisfied was given
}

// NewVersions returns a Versions in which every key is satisfied.
func NewVersions[K comparable](cfg Config[K]) *Versions[K] {
	v := &Versions[K]{book: newBook[K, uint64](cfg)}
	v.book.moot = func(expected uint64) bool { return expected <= v.seen }
	return v
}

// Satisfied says whether a cache that has seen everything up to version seen is new enough for key: it has seen what
// key expects, or that has expired, or key has never expected anything.
func (v *Versions[K]) Satisfied(key K, seen uint64) bool {
	v.book.mu.Lock()
	v.seen = max(v.seen, seen)
	defer v.book.unlock(v.book.sweepLocked())
	p := v.book.pages[key]
	if p != nil && p.expected > seen {
		return false
	}
	if p != nil {
		v.book.removeLocked(p)
	}
	return true
}

// ExpectVersion makes key expect that the cache sees version, and lets its time begin anew. A version that is not
// higher than the one that key expects already changes nothing.
func (v *Versions[K]) ExpectVersion(key K, version uint64) {
	defer v.book.unlock(v.book.lock())
	p := v.book.pages[key]
	if p != nil && p.expected >= version || version == 0 {
		return
	}
	p = v.book.pageLocked(key)
	v.book.renewLocked(p)
	p.expected = version
}

// Delete forgets key. To be called when the object of key is gone.
func (v *Versions[K]) Delete(key K) { v.book.forget(key) }

// Expires returns when what key expects expires; ok is false if it expects nothing. With a negative TTL the time is
// zero.
func (v *Versions[K]) Expires(key K) (at time.Time, ok bool) { return v.book.expires(key) }
