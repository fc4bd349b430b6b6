package cache

import "maps"

// minPeak is the size below which a table is never copied to a smaller map: it would save next to nothing.
const minPeak = 64

// table is a map that gives its memory back. A Go map never shrinks, so one that once held a million keys keeps room
// for a million.
//
// Invariant: peak is the most that m has held since it was made.
type table[K comparable, V any] struct {
	m    map[K]V
	peak int
}

func newTable[K comparable, V any](size int) table[K, V] {
	return table[K, V]{m: make(map[K]V, size), peak: size}
}

func (t *table[K, V]) put(key K, v V) {
	t.m[key] = v
	t.peak = max(t.peak, len(t.m))
}

// wasteful says that m has room for four times as much as it holds.
func (t *table[K, V]) wasteful() bool {
	return t.peak >= minPeak && len(t.m) <= t.peak/4
}

// smaller returns a copy with as much room as is needed.
func (t *table[K, V]) smaller() table[K, V] {
	small := newTable[K, V](len(t.m))
	maps.Copy(small.m, t.m)
	return small
}
