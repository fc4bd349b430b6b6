package controller

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// Parked returns the keys that nothing tries again: those whose retry budget is spent, and after them those that were given
// up because of an error of [Terminal], of each the longest parked first. They wait for somebody to add them, for
// [Controller.RetryParked] or [Controller.DropParked]. Of a spent budget, [Controller.Snapshot] tells why.
func (c *Controller[K]) Parked() []K { return append(c.queue.Parked(), c.gaveUp.keys()...) }

// RetryParked makes a key that is parked be reconciled, with a whole budget. It reports whether the key was parked.
func (c *Controller[K]) RetryParked(key K) bool {
	if c.gaveUp.remove(key) {
		c.Add(key)
		return true
	}
	return c.queue.RetryParked(key)
}

// DropParked forgets a key that is parked. It reports whether the key was parked.
func (c *Controller[K]) DropParked(key K) bool {
	return c.gaveUp.remove(key) || c.queue.DropParked(key)
}

// gaveUp is the keys whose last reconcile has returned an error of Terminal.
type gaveUp[K comparable] struct {
	n atomic.Int64 // of numbers; written with mu held

	mu sync.Mutex
	// mu guards the following.
	numbers map[K]uint64 // the later, the greater
	last    uint64
}

func (g *gaveUp[K]) add(key K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.numbers == nil {
		g.numbers = make(map[K]uint64)
	}
	g.last++
	g.numbers[key] = g.last
	g.n.Store(int64(len(g.numbers)))
}

// remove reports whether key was there.
func (g *gaveUp[K]) remove(key K) bool {
	if g.n.Load() == 0 { // nearly always
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, ok := g.numbers[key]
	delete(g.numbers, key)
	g.n.Store(int64(len(g.numbers)))
	return ok
}

// keys returns the keys, the longest given up first.
func (g *gaveUp[K]) keys() []K {
	g.mu.Lock()
	defer g.mu.Unlock()
	keys := make([]K, 0, len(g.numbers))
	for key := range g.numbers {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(g.numbers[a], g.numbers[b]) })
	return keys
}
