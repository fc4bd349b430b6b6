package relist

import (
	"iter"
	"slices"
)

const (
	// lookAhead is how many of the next objects of a list are searched for a key.
	lookAhead = 32

	// maxAstray is the number of failed searches after which Find stops searching, if fewer than one in five succeeds: then the order of
	// the list has nothing to do with that of the cache.
	maxAstray = 256
)

// Page is a page of a list: the object at index i has the key at index i.
type Page[K comparable, T any] struct {
	Keys  []K
	Items []T
}

// Merger walks through the pages of a list, in parallel with another sequence of keys. It is not safe for concurrent use. Make one with
// [NewMerger].
type Merger[K comparable, T any] struct {
	pages       []Page[K, T] // from the current page on
	i           int          // the next object of the current page
	found, lost int          // the numbers of successful and failed searches
	astray      []place[K, T]
}

// place is the place of an object in a list.
type place[K comparable, T any] struct {
	page *Page[K, T]
	i    int
}

// NewMerger returns a Merger for a list.
func NewMerger[K comparable, T any](pages []Page[K, T]) *Merger[K, T] {
	return &Merger[K, T]{pages: pages}
}

// Find searches the next objects of the list for key, and returns the first that has it. Objects that it skips are astray.
func (m *Merger[K, T]) Find(key K) (obj T, ok bool) {
	if m.lost > maxAstray+4*m.found {
		return obj, false
	}
	ahead := lookAhead
	for at, from := 0, m.i; at < len(m.pages) && ahead > 0; at, from = at+1, 0 {
		keys := m.pages[at].Keys[from:]
		if i := slices.Index(keys[:min(ahead, len(keys))], key); i >= 0 {
			for range at {
				m.turn()
			}
			m.found++
			m.pass(from + i)
			m.i++
			return m.pages[0].Items[from+i], true
		}
		ahead -= len(keys)
	}
	m.lost++
	return obj, false
}

// Astray skips the rest of the list, and iterates over all objects that were skipped, in the order of the list.
func (m *Merger[K, T]) Astray() iter.Seq2[K, T] {
	for len(m.pages) > 0 {
		m.turn()
	}
	return func(yield func(K, T) bool) {
		for _, at := range m.astray {
			if !yield(at.page.Keys[at.i], at.page.Items[at.i]) {
				return
			}
		}
	}
}

// pass advances to place i of the page. Objects that it skips are astray.
func (m *Merger[K, T]) pass(i int) {
	m.astray = slices.Grow(m.astray, i-m.i)
	for ; m.i < i; m.i++ {
		m.astray = append(m.astray, place[K, T]{&m.pages[0], m.i})
	}
}

// turn advances to the next page.
func (m *Merger[K, T]) turn() {
	m.pass(len(m.pages[0].Keys))
	m.pages, m.i = m.pages[1:], 0
}
