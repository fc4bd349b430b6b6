package informer

import (
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/setpoint-go/setpoint/wait"
)

// replace makes a list the content of the cache. It keeps objects that have not changed.
func (a *applier[K, T]) replace(l *content[K, T]) {
	a.served, a.floors = l.requests, nil
	before, equal := a.failed, a.equal
	if l.starts {
		a.at, before = 0, nil
		a.equal = nil // in another history, a version may mean another state
	}
	a.failed = nil // the list has the current state of every key
	unread := a.addUnread(l)
	a.spoiled, a.joins = maps.Clone(unread), l.joins
	a.merge(l, unread)
	a.equal, a.spoiled, a.joins = equal, nil, nil
	for key := range a.failed {
		unread[key] = struct{}{}
		if floor, failed := before[key]; failed {
			a.failed[key] = floor // later changes are still missing
		}
	}
	if l.starts {
		a.old = maps.Clone(unread)
	}
	a.removeUnread(l, unread)
}

// join adds the objects of slots that were listed alone. The events between the version of the cache and that of the list are yet to come.
func (a *applier[K, T]) join(l *content[K, T]) {
	a.served.holds = l.requests.holds
	if a.floors == nil {
		a.floors = make(map[int]Version)
	}
	for _, slot := range l.slots {
		a.floors[slot] = l.version
	}
	a.joins = l.joins
	again := false
	for _, p := range l.pages {
		for i, obj := range p.items {
			if _, cached := a.indexer.Get(p.keys[i]); cached {
				again = true // it was in another slot, or another object of the list has this key
			}
			a.try(&input[K, T]{kind: Modified, key: p.keys[i], object: obj})
		}
	}
	if again {
		a.keepLast(l.pages)
	}
	a.joins = nil
}

// removeUnread records that the cache has the current states of all keys but the given ones. If records are missing, this is certain only of
// the keys of the list: any other key that was unread before may be in such a record.
func (a *applier[K, T]) removeUnread(l *content[K, T], except map[K]struct{}) {
	if len(l.missing) == 0 {
		a.unread.keep(except)
		a.unread.setMissing(nil)
		return
	}
	for _, p := range l.pages {
		for _, key := range p.keys {
			if _, bad := except[key]; !bad {
				a.unread.remove(key)
			}
		}
	}
}

// addUnread records the unread keys and the missing records of a list, and reports those that are new. It returns the keys.
func (a *applier[K, T]) addUnread(l *content[K, T]) map[K]struct{} {
	keys := make(map[K]struct{}, len(l.unread))
	var news []unreadKey[K]
	for _, u := range l.unread {
		keys[u.key] = struct{}{}
		if a.unread.add(u.key, u.err) {
			news = append(news, u)
		}
	}
	switch {
	case len(news) == 1:
		a.onError(fmt.Errorf("informer: list %s: read %v: %w", a.name, news[0].key, news[0].err))
	case len(news) > 1:
		const text = "informer: list %s: %d objects cannot be read, such as %v: %w"
		a.onError(fmt.Errorf(text, a.name, len(news), news[0].key, news[0].err))
	}
	if len(l.missing) > 0 {
		before := a.unread.isMissing()
		a.unread.setMissing(l.missing)
		if now := a.unread.isMissing(); before == nil || before.Error() != now.Error() {
			a.onError(fmt.Errorf("informer: list %s: nothing is deleted: %w", a.name, now))
		}
	}
	return keys
}

// merge applies the differences between the cache and a list. Cached objects with unread keys stay. If records are missing, so do all objects
// that the list lacks, and merge adds their keys to unread.
//
// A list usually has the order of the cache, which is that of the first list. So merge walks through both in parallel, without look-ups and
// hashes. At the end, it looks up the keys of both sides that it has not found this way. Whatever the order, each key of the cache is found
// in the list or deleted.
func (a *applier[K, T]) merge(l *content[K, T], unread map[K]struct{}) {
	pages := l.pages
	if a.indexer.Len() == 0 {
		listed := 0
		for _, p := range pages {
			listed += len(p.items)
			for i, obj := range p.items {
				a.try(&input[K, T]{kind: Modified, key: p.keys[i], object: obj})
			}
		}
		if a.indexer.Len() < listed { // or some could not be applied
			a.keepLast(pages)
		}
		return
	}
	m := merger[K, T]{pages: pages}
	var left []input[K, T] // in the cache, but not found in the list
	for key, obj := range a.indexer.All() {
		if found, ok := m.find(key); ok {
			if !a.same(key, obj, found) {
				a.try(&input[K, T]{kind: Modified, key: key, object: found})
			}
		} else {
			left = append(left, input[K, T]{kind: Deleted, missed: true, key: key, object: obj})
		}
	}

	missing := make(map[K]struct{}, len(left)) // the keys of left that are not found among the objects that were skipped
	for i := range left {
		missing[left[i].key] = struct{}{}
	}
	again := false
	for key, obj := range m.skipped() {
		old, ok := a.indexer.Get(key)
		if _, found := missing[key]; found {
			delete(missing, key)
		} else if ok {
			again = true // another object of the list has this key
			continue
		}
		if !ok || !a.same(key, old, obj) {
			a.try(&input[K, T]{kind: Modified, key: key, object: obj})
		}
	}
	for i := range left {
		key := left[i].key
		_, lacks := missing[key]
		_, exists := unread[key]
		switch {
		case !lacks || exists:
		case len(l.missing) > 0:
			unread[key] = struct{}{}
			a.unread.add(key, a.unread.isMissing())
		default:
			a.try(&left[i])
		}
	}
	if again {
		a.keepLast(pages)
	}
}

// keepLast looks for keys that several objects of a list have. It makes the last of these objects that of the cache, and reports the keys.
func (a *applier[K, T]) keepLast(pages []page[K, T]) {
	last, count := make(map[K]T), make(map[K]int)
	var keys []K // of several objects
	for _, p := range pages {
		for i, key := range p.keys {
			last[key] = p.items[i]
			if count[key]++; count[key] == 2 {
				keys = append(keys, key)
			}
		}
	}
	if len(keys) == 0 {
		return
	}
	for _, key := range keys {
		if old, ok := a.indexer.Get(key); !ok || !a.same(key, old, last[key]) {
			a.try(&input[K, T]{kind: Modified, key: key, object: last[key]})
		}
	}
	const text = "informer: list %s: %d of its keys have several objects, such as %v; the last object of each counts"
	a.onError(fmt.Errorf(text, a.name, len(keys), keys[0]))
}

// same reports whether two states of a key are the same.
func (a *applier[K, T]) same(key K, old, obj T) (same bool) {
	if _, isOld := a.old[key]; isOld || a.equal == nil {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			err := &wait.PanicError{Value: v, Stack: debug.Stack()}
			a.onError(fmt.Errorf("informer: compare states of %v for %s: %w", key, a.name, err))
			same = false
		}
	}()
	return a.equal(old, obj)
}

// page is a page of a list: the object at index i has the key at index i.
type page[K comparable, T any] struct {
	keys  []K
	items []T
}

const (
	// lookAhead is how many of the next objects of a list are searched for a key.
	lookAhead = 32

	// maxMisses is the number of failed searches after which find stops searching, if fewer than one in five succeeds: then the order of
	// the list has nothing to do with that of the cache.
	maxMisses = 256
)

// merger walks through the pages of a list in parallel with another sequence of keys, and compares the keys of both one by one. It is not safe
// for concurrent use.
//
//  1. Each object of the list is either returned by one find, or yielded by skipped.
//  2. find compares a key with at most lookAhead others. If fewer than one search in five succeeds, it soon stops searching.
type merger[K comparable, T any] struct {
	pages        []page[K, T] // from the current page on
	i            int          // the next object of the current page
	hits, misses int          // the numbers of successful and failed searches
	passed       []place[K, T]
}

// place is the place of an object in a list.
type place[K comparable, T any] struct {
	page *page[K, T]
	i    int
}

// find searches the next objects of the list for key, and returns the first that has it. It skips the objects before that one.
func (m *merger[K, T]) find(key K) (obj T, ok bool) {
	if m.misses > maxMisses+4*m.hits {
		return obj, false
	}
	ahead := lookAhead
	for at, from := 0, m.i; at < len(m.pages) && ahead > 0; at, from = at+1, 0 {
		keys := m.pages[at].keys[from:]
		if i := slices.Index(keys[:min(ahead, len(keys))], key); i >= 0 {
			for range at {
				m.turnPage()
			}
			m.hits++
			m.skip(from + i)
			m.i++
			return m.pages[0].items[from+i], true
		}
		ahead -= len(keys)
	}
	m.misses++
	return obj, false
}

// skipped skips the rest of the list, and iterates over all objects that were skipped, in the order of the list.
func (m *merger[K, T]) skipped() iter.Seq2[K, T] {
	for len(m.pages) > 0 {
		m.turnPage()
	}
	return func(yield func(K, T) bool) {
		for _, at := range m.passed {
			if !yield(at.page.keys[at.i], at.page.items[at.i]) {
				return
			}
		}
	}
}

// skip advances to place i of the page.
func (m *merger[K, T]) skip(i int) {
	m.passed = slices.Grow(m.passed, i-m.i)
	for ; m.i < i; m.i++ {
		m.passed = append(m.passed, place[K, T]{&m.pages[0], m.i})
	}
}

// turnPage advances to the next page.
func (m *merger[K, T]) turnPage() {
	m.skip(len(m.pages[0].keys))
	m.pages, m.i = m.pages[1:], 0
}
