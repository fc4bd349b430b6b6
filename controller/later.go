package controller

import (
	"sync"
	"sync/atomic"
)

// later holds keys for the next Run, while a Run drains. So what is added cannot keep a drain from ending.
type later[K comparable] struct {
	open atomic.Bool // keys are taken; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariant: places has the place of each key in keys, and there are none unless it is open.
	keys   []laterKey[K]
	places map[K]int
}

type laterKey[K comparable] struct {
	key  K
	opts AddOptions
}

// begin makes add take keys.
func (l *later[K]) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places = make(map[K]int)
	l.open.Store(true)
}

// add takes a key. It returns false if no Run drains.
func (l *later[K]) add(key K, opts AddOptions) bool {
	if !l.open.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open.Load() { // it was closed since
		return false
	}
	if i, ok := l.places[key]; ok {
		known := &l.keys[i].opts
		known.Priority = max(known.Priority, opts.Priority)
		if opts.Reason != "" {
			known.Reason = opts.Reason
		}
		return true
	}
	l.places[key] = len(l.keys)
	l.keys = append(l.keys, laterKey[K]{key, opts})
	return true
}

// end returns the keys, in the order in which they came. From now on add takes none.
func (l *later[K]) end() []laterKey[K] {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := l.keys
	l.keys, l.places = nil, nil
	l.open.Store(false)
	return keys
}
