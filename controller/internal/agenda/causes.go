package agenda

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxCauses is the largest number of causes of a key.
const MaxCauses = 8

// keep is the number of keys for which Causes keeps its memory after a burst.
const keep = 4096

// Causes has the causes of keys, each as the text of a trace context. The zero value is ready for use. All methods are safe for
// concurrent use.
type Causes[K comparable] struct {
	n atomic.Int64 // the number of keys; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. Each list has at least one cause and at most MaxCauses, each once.
	//  2. most is the largest number of keys since the map was made.
	//  3. A list is never changed in place, because Take has returned it or will.
	keys map[K][]string
	most int
}

// Note adds a cause of key. Call it before the key is added, so that the reconcile that sees the change also finds the cause.
func (b *Causes[K]) Note(key K, cause string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setLocked(key, with(b.keys[key], cause))
}

// Take removes the causes of key and returns them, the oldest first. The caller must not change them.
func (b *Causes[K]) Take(key K) []string {
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

// Restore adds causes that Take has returned, before those that were added since: the reconcile of key has not succeeded.
func (b *Causes[K]) Restore(key K, causes []string) {
	if len(causes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, newer := range b.keys[key] {
		causes = with(causes, newer)
	}
	b.setLocked(key, causes)
}

// Len returns the number of keys that have a cause.
func (b *Causes[K]) Len() int { return int(b.n.Load()) }

func (b *Causes[K]) setLocked(key K, list []string) {
	if b.keys == nil {
		b.keys = make(map[K][]string)
	}
	b.keys[key] = list
	b.n.Store(int64(len(b.keys)))
	b.most = max(b.most, len(b.keys))
}

// with returns list with one more cause. Of too many, the second oldest is dropped.
func with(list []string, cause string) []string {
	switch {
	case slices.Contains(list, cause):
		return list
	case len(list) == MaxCauses:
		return slices.Concat(list[:1], list[2:], []string{cause})
	}
	return append(slices.Clip(list), cause)
}

// CheckInvariants returns an error if an invariant written at a field does not hold. It is for tests.
func (b *Causes[K]) CheckInvariants() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.n.Load(); n != int64(len(b.keys)) || b.most < len(b.keys) {
		return fmt.Errorf("%d keys, n is %d, most is %d", len(b.keys), n, b.most)
	}
	for key, list := range b.keys {
		unique := slices.Compact(slices.Sorted(slices.Values(list)))
		if len(list) == 0 || len(list) > MaxCauses || len(unique) != len(list) {
			return fmt.Errorf("%v has the causes %q", key, list)
		}
	}
	return nil
}
