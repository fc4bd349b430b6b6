package controller

import (
	"context"
	"sync"
)

// maxSuperseded is how often in a row a reconcile of one key is ended because of a newer event. The one after that is not ended, so that a
// key with constant events is still reconciled.
const maxSuperseded = 8

// cancelable has the reconciles that a newer event may end.
type cancelable[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Invariant: a key is in ended only if its last reconcile was superseded, or is one that must not be ended.
	cancels map[K]context.CancelCauseFunc
	ended   map[K]int // how often in a row
}

// newCancelable returns one without a reconcile.
func newCancelable[K comparable]() *cancelable[K] {
	return &cancelable[K]{cancels: make(map[K]context.CancelCauseFunc), ended: make(map[K]int)}
}

// begin records that a reconcile of key begins, which cancel ends.
func (c *cancelable[K]) begin(key K, cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended[key] < maxSuperseded {
		c.cancels[key] = cancel
	}
}

// end records that the reconcile of key has ended.
func (c *cancelable[K]) end(key K, superseded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cancels, key)
	if superseded {
		c.ended[key]++
	} else {
		delete(c.ended, key)
	}
}

// of returns a function that ends the reconcile of key in flight, and no later one. It returns nil if there is none that may be
// ended.
func (c *cancelable[K]) of(key K) context.CancelCauseFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancels[key]
}
