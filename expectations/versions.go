package expectations

import (
	"container/heap"
	"log/slog"
	"time"
)

// Versions records which version of a source a key must see before it can trust a cache of that source: the version of its own
// last write. It is the simplest and most exact of the three types. It needs a source whose writes return a version, and a
// cache that knows its version. A controller that writes to several sources has one Versions for each.
//
// The order does not matter: the cache may see the write before ExpectVersion is called. A version that has been observed is never
// expected.
//
// A Versions is exact if it learns of each version that the cache has reached. That includes versions without an event: an informer may
// merge a creation and the deletion after it, and call no handler for either. So connect Versions to the informer:
//
//	stop := inf.OnVersion(func(v informer.Version) { exp.VersionObserved(uint64(v)) })
//	defer stop()
//	exp.VersionObserved(uint64(inf.Version())) // versions reached before
//
// If a deletion returns no version, expect the version of a list that is read after it, even of a list that selects nothing.
// A cache that has reached that version has seen the deletion.
//
// Several goroutines may call its methods concurrently.
type Versions[K comparable] struct {
	book book[K, awaited]

	// Guarded by book.mu.
	seen uint64       // the highest version of the current history that was observed
	next byVersion[K] // the pages of book, each of which waits for a version above seen
}

// awaited is the version that a key waits for, and the place of its page in next.
type awaited struct {
	version uint64
	place   int
}

// NewVersions returns a Versions in which every key is satisfied.
func NewVersions[K comparable](cfg Config[K]) *Versions[K] {
	v := &Versions[K]{book: newBook[K, awaited](cfg)}
	v.book.attrs = func(a awaited) slog.Attr { return slog.Uint64("version", a.version) }
	v.book.removed = func(p *page[K, awaited]) {
		heap.Remove(&v.next, p.expected.place)
		if len(v.next) == 0 && cap(v.next) > 64 {
			v.next = nil // free the memory of a burst
		}
	}
	return v
}

// SatisfiedExpectations reports whether key is not waiting: its version was observed or has expired, or it has none.
func (v *Versions[K]) SatisfiedExpectations(key K) bool {
	_, waiting := v.book.ask(key)
	return !waiting
}

// ExpectVersion makes key wait until the cache has seen version, and renews its TTL. A version that has already been observed, or that is
// not higher than the one that key expects, changes nothing.
func (v *Versions[K]) ExpectVersion(key K, version uint64) {
	defer v.book.unlock(v.book.lock())
	if version <= v.seen {
		return
	}
	if p := v.book.pages[key]; p == nil {
		p = v.book.pageLocked(key)
		p.expected.version = version
		heap.Push(&v.next, p)
	} else if p.expected.version < version {
		v.book.renewLocked(p)
		p.expected.version = version
		heap.Fix(&v.next, p.expected.place)
	}
}

// VersionObserved reports that the cache has seen everything up to version. It satisfies each key that expects that version or a lower one.
// A version lower than an observed one changes nothing, except 0.
//
// Version 0 after any other begins a new history: the source was restored from a backup, or replaced by another one, and its versions start
// over. Earlier observations no longer count. A waiting key waits until the first version of the new history is observed, because its write
// may not exist there. An informer reports 0 after Reset, before it applies the new list.
//
// Call it after each change to the cache. If that is not possible, call it before each check, as in
// exp.VersionObserved(uint64(inf.Version())).
func (v *Versions[K]) VersionObserved(version uint64) {
	v.book.mu.Lock()
	if version == 0 && v.seen > 0 {
		v.seen = 0
		for _, p := range v.next {
			p.expected.version = 1 // all are equal, so next stays a heap
		}
	}
	v.seen = max(v.seen, version)
	for len(v.next) > 0 && v.next[0].expected.version <= v.seen {
		v.book.meetLocked(v.next[0])
	}
	v.book.unlock(v.book.sweepLocked()) // after the loop: a key that was just satisfied does not expire
}

// DeleteExpectations forgets key. Call it when the object of key is deleted.
func (v *Versions[K]) DeleteExpectations(key K) { v.book.forget(key) }

// Reset forgets all observations and expectations, so every key is satisfied. It is for code that switches v to another source and another
// cache. A cache whose source begins a new history reports version 0 instead: see [Versions.VersionObserved].
func (v *Versions[K]) Reset() {
	defer v.book.unlock(v.book.lock())
	v.seen = 0
	for len(v.next) > 0 {
		v.book.meetLocked(v.next[0])
	}
}

// Name returns Config.Name.
func (v *Versions[K]) Name() string { return v.book.cfg.Name }

// Expires reports whether key waits, and when its expectations expire. It is the opposite of SatisfiedExpectations. If the TTL
// is negative, the time is zero.
func (v *Versions[K]) Expires(key K) (at time.Time, waiting bool) { return v.book.ask(key) }

// Notify adds a function that is called when a key that waits becomes satisfied. See the package documentation. It panics if f is nil.
func (v *Versions[K]) Notify(f func(key K)) (stop func()) { return v.book.notify(f) }

// byVersion is a heap of pages, the lowest version first. Each page knows its place.
type byVersion[K comparable] []*page[K, awaited]

func (h byVersion[K]) Len() int           { return len(h) }
func (h byVersion[K]) Less(i, j int) bool { return h[i].expected.version < h[j].expected.version }

func (h byVersion[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].expected.place, h[j].expected.place = i, j
}

func (h *byVersion[K]) Push(x any) {
	p := x.(*page[K, awaited])
	p.expected.place = len(*h)
	*h = append(*h, p)
}

func (h *byVersion[K]) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
