package controller

import (
	"context"
	"sync"
)

// maxSuperseded is how often in a row a reconcile of one key is ended because of a newer event. The one after that is left
// in peace, so that a key to which something happens all the time is reconciled nonetheless.
const maxSuperseded = 8

// flights are the reconciles that a newer event may end.
type flights[K comparable] struct {
	mu sync.Mutex
	// mu guards the following. Invariant: a key is in ended only if its last reconcile was superseded, or is one that is
	// left in peace.
	cancels map[K]context.CancelCauseFunc
	ended   map[K]int // how often in a row
}

func newFlights[K comparable]() *flights[K] {
	return &flights[K]{cancels: make(map[K]context.CancelCauseFunc), ended: make(map[K]int)}
}

// begin says that a reconcile of key begins, which cancel ends.
func (f *flights[K]) begin(key K, cancel context.CancelCauseFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[key] < maxSuperseded {
		f.cancels[key] = cancel
	}
}

// end says that the reconcile of key has ended.
func (f *flights[K]) end(key K, superseded bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.cancels, key)
	if superseded {
		f.ended[key]++
	} else {
		delete(f.ended, key)
	}
}

// underWay returns what ends the reconcile of key that is under way, and no later one; nil if there is none that may be ended.
func (f *flights[K]) underWay(key K) context.CancelCauseFunc {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cancels[key]
}
