package informer

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/setpoint-go/setpoint/wait"
)

const (
	// lookAhead is how far ahead in a list the next object of the cache is looked for.
	lookAhead = 32

	// maxAstray is the number of objects of the cache that may be looked for in vain, if not one in five is found: then
	// the order of the list has nothing to do with that of the cache.
	maxAstray = 256
)

// replace makes a list the content of the cache. What the cache holds already is left as it is.
func (a *applier[K, T]) replace(l *content[K, T]) {
	before, equal := a.failed, a.equal
	if l.starts {
		a.at, before = 0, nil
		a.equal = nil // a version may mean another state in another history
	}
	a.failed = nil // the list has the truth about every key
	a.merge(l.pages, l.unread)
	a.equal = equal
	for key := range a.failed {
		if floor, failed := before[key]; failed {
			a.failed[key] = floor // what is missing since then is missing still
		}
	}
}

// merge applies the differences between the cache and a list. What the cache holds of unread keys stays.
//
// A list is mostly in the order in which the cache holds its objects, which is that of the first list. So it goes through
// both side by side, which takes neither a look-up nor a hash. What is not found so, on either side, is sorted out at the
// end by its key. Whatever the order is, each key of the cache is found in the list or deleted.
func (a *applier[K, T]) merge(pages []page[K, T], unread []K) {
	if a.indexer.Len() == 0 {
		for _, p := range pages {
			for i, obj := range p.items {
				if i%maxBatch == 0 {
					a.indexer.Prefetch(p.keys[i:min(i+maxBatch, len(p.keys))])
				}
				a.try(&input[K, T]{kind: Modified, key: p.keys[i], object: obj})
			}
		}
		return
	}
	m := merger[K, T]{pages: pages}
	var left []input[K, T] // in the cache, and not found in the list
	for key, obj := range a.indexer.All() {
		if found, ok := m.find(key); ok {
			if !a.same(key, obj, found) {
				a.try(&input[K, T]{kind: Modified, key: key, object: found})
			}
		} else {
			left = append(left, input[K, T]{kind: Deleted, missed: true, key: key, object: obj})
		}
	}
	m.rest()

	var listed map[K]struct{} // the keys of those that are astray or unread
	if len(left) > 0 {
		listed = make(map[K]struct{}, len(m.astray)+len(unread))
		for _, key := range unread {
			listed[key] = struct{}{}
		}
	}
	for _, at := range m.astray {
		key, obj := at.page.keys[at.i], at.page.items[at.i]
		if listed != nil {
			listed[key] = struct{}{}
		}
		if old, ok := a.indexer.Get(key); ok && a.same(key, old, obj) {
			continue
		}
		a.try(&input[K, T]{kind: Modified, key: key, object: obj})
	}
	for i := range left {
		if _, ok := listed[left[i].key]; !ok {
			a.try(&left[i])
		}
	}
}

// same reports whether two states of a key are the same.
func (a *applier[K, T]) same(key K, old, obj T) (same bool) {
	if a.equal == nil {
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

// merger goes through the pages of a list, in step with something else that has keys.
type merger[K comparable, T any] struct {
	pages       []page[K, T] // from the page on that it is at
	i           int          // where it is on the first of them
	found, lost int          // keys that were found, and looked for in vain
	astray      []place[K, T]
}

// place is where an object is in a list.
type place[K comparable, T any] struct {
	page *page[K, T]
	i    int
}

// find looks for key in what comes next. It passes by what comes before it, which is astray.
func (m *merger[K, T]) find(key K) (obj T, ok bool) {
	if m.lost > maxAstray+4*m.found {
		return obj, false
	}
	ahead := lookAhead
	for at, from := 0, m.i; at < len(m.pages) && ahead > 0; at, from = at+1, 0 {
		keys := m.pages[at].keys[from:]
		if i := slices.Index(keys[:min(ahead, len(keys))], key); i >= 0 {
			for range at {
				m.turn()
			}
			m.found++
			m.pass(from + i)
			m.i++
			return m.pages[0].items[from+i], true
		}
		ahead -= len(keys)
	}
	m.lost++
	return obj, false
}

// pass goes on to place i of the page.
func (m *merger[K, T]) pass(i int) {
	m.astray = slices.Grow(m.astray, i-m.i)
	for ; m.i < i; m.i++ {
		m.astray = append(m.astray, place[K, T]{&m.pages[0], m.i})
	}
}

// turn goes on to the next page.
func (m *merger[K, T]) turn() {
	m.pass(len(m.pages[0].keys))
	m.pages, m.i = m.pages[1:], 0
}

// rest passes by all that comes.
func (m *merger[K, T]) rest() {
	for len(m.pages) > 0 {
		m.turn()
	}
}
