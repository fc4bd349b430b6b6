package expectations

import (
	"container/heap"
	"time"
)

// Versions knows which version of a source a key must see before it can trust a cache of that source: the version of
// its own last write. It is the simplest and the most exact of the three, and counts nothing, but needs a source whose
// writes return a version, and a cache that knows how far it has come. A controller that writes to several sources has
// one Versions for each.
//
// The order does not matter: the write may come first, and the cache may see it before ExpectVersion is called. A version
// that was observed is never expected.
//
// All methods may be called by several goroutines at once.
type Versions[K comparable] struct {
	book book[K, awaited]

	// Guarded by book.mu.
	seen uint64       // the highest version of the present history that was observed
	next byVersion[K] // the pages of book: all of them wait for more than seen
}

// awaited is the version that a key waits for, and where its page stands in next.
type awaited struct {
	version uint64
	place   int
}

// NewVersions returns a Versions in which every key is satisfied. Its error is nil: every Config is valid.
func NewVersions[K comparable](cfg Config[K]) (*Versions[K], error) {
	v := &Versions[K]{book: newBook[K, awaited](cfg)}
	v.book.removed = func(p *page[K, awaited]) {
		heap.Remove(&v.next, p.expected.place)
		if len(v.next) == 0 && cap(v.next) > 64 {
			v.next = nil // a crowd came and went
		}
	}
	return v, nil
}

// Satisfied says whether key waits for nothing: the version that it expected has been observed or has expired, or it has
// never expected any.
func (v *Versions[K]) Satisfied(key K) bool {
	_, waiting := v.book.ask(key)
	return !waiting
}

// ExpectVersion makes key expect that the cache sees version, and lets its time begin anew. A version that was observed
// already, or is not higher than the one that key expects, changes nothing.
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

// VersionObserved reports that the cache has seen everything up to version: it satisfies each key that expects no more. A
// version below one that was observed before changes nothing, except 0.
//
// Version 0 after any other begins a new history: the source was restored from a backup, or replaced by another one, and
// its versions start anew. What was observed before does not count anymore. A key that waits does so until the first version
// of the new history is observed, because the write for which it waits may not exist there. An informer reports 0 after
// Reset, before it applies the new list.
//
// Whoever moves the cache on calls it after the cache was changed. Whoever cannot hear of that calls it before it asks, as in
// exp.VersionObserved(uint64(inf.Version())).
func (v *Versions[K]) VersionObserved(version uint64) {
	v.book.mu.Lock()
	if version == 0 && v.seen > 0 {
		v.seen = 0
		for _, p := range v.next {
			p.expected.version = 1 // all of them are equal, so the heap stays one
		}
	}
	v.seen = max(v.seen, version)
	for len(v.next) > 0 && v.next[0].expected.version <= v.seen {
		v.book.meetLocked(v.next[0])
	}
	v.book.unlock(v.book.sweepLocked()) // what is met by now has not expired
}

// Delete forgets key. To be called when the object of key is gone.
func (v *Versions[K]) Delete(key K) { v.book.forget(key) }

// Reset forgets what was observed and what is expected: every key is satisfied, at once. It is for an owner of v that
// begins anew with another source and another cache. A cache that goes on with a new history of its source reports
// version 0 instead: see [Versions.VersionObserved].
func (v *Versions[K]) Reset() {
	defer v.book.unlock(v.book.lock())
	v.seen = 0
	for len(v.next) > 0 {
		v.book.meetLocked(v.next[0])
	}
}

// Expires says whether key waits, and until when at the latest: it is Satisfied the other way round, for those who hold a
// key back. With a negative TTL the time is zero.
func (v *Versions[K]) Expires(key K) (at time.Time, waiting bool) { return v.book.ask(key) }

// Notify has f called for each key of which Expires or Satisfied has said that it waits, as soon as it waits no more
// because the version was observed or the key was deleted. See the package documentation.
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
