package controller

import (
	"slices"
	"sync"
	"sync/atomic"
)

// maxCauses is the largest number of causes of a key.
const maxCauses = 8

// keep is the number of keys for which causes keeps its memory after a burst.
const keep = 4096

// causes has the causes of keys, each as the text of a trace context. The zero value is ready for use. All methods are safe for
// concurrent use.
type causes[K comparable] struct {
	n atomic.Int64 // the number of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. Each list has at least one cause and at most maxCauses, each once.
	//  2. most is the largest number of keys since the map was made.
	//  3. A list is never changed in place, because take has returned it or will.
	keys map[K][]string
	most int
}

// note adds a cause of key. Call it before the key is added, so that the reconcile that sees the change also finds the cause.
func (b *causes[K]) note(key K, cause string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setLocked(key, withCause(b.keys[key], cause))
}

// take removes the causes of key and returns them, the oldest first. The caller must not change them.
func (b *causes[K]) take(key K) []string {
	if b.n.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list, ok := b.keys[key]
	if !ok {
		return nil
	}
	delete(b.keys, key)
	if b.n.Add(-1) == 0 && b.most > keep {
		b.keys, b.most = nil, 0
	}
	return list
}

// restore adds causes that take has returned, before those that were added since: the reconcile of key has not succeeded.
func (b *causes[K]) restore(key K, causes []string) {
	if len(causes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, newer := range b.keys[key] {
		causes = withCause(causes, newer)
	}
	b.setLocked(key, causes)
}

func (b *causes[K]) setLocked(key K, list []string) {
	if b.keys == nil {
		b.keys = make(map[K][]string)
	}
	b.keys[key] = list
	b.n.Store(int64(len(b.keys)))
	b.most = max(b.most, len(b.keys))
}

// withCause returns list with one more cause. Of too many, the second oldest is dropped.
func withCause(list []string, cause string) []string {
	switch {
	case slices.Contains(list, cause):
		return list
	case len(list) == maxCauses:
		return slices.Concat(list[:1], list[2:], []string{cause})
	}
	return append(slices.Clip(list), cause)
}
