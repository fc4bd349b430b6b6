package controller

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// holds are the keys that are to be reconciled and are not in the queue: those that are paused, those whose expectations
// are not met, and those that a Run leaves to the next.
//
// A key is held before the worker gives it back to the queue, and added to the queue before it is held no more: so at each
// moment it is in one of the two, or in both.
type holds[K comparable] struct {
	diverting atomic.Bool // a Run drains; written with mu held
	pausing   atomic.Bool // paused is not empty; written with mu held

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. places has the place of each key in later, and there are none unless diverting.
	//  2. n counts the keys of later and of waiting, those of paused that are true, and those that are just being added
	//     to the queue.
	//  3. empty is nil when n is 0.
	later   []laterKey[K]
	places  map[K]int
	paused  map[K]bool // true if the key is to be reconciled
	waiting map[K]hold
	n       int
	changes uint64        // of n
	empty   chan struct{} // closed, and dropped, when n falls to 0; nil while nobody waits for that
}

// hold is what is known of a key whose expectations are not met.
type hold struct {
	number uint64    // no other hold has it
	until  time.Time // when the expectations expire; zero for never
}

// held returns the number of keys that are held.
func (h *holds[K]) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// waitEmpty waits until nothing is held, and returns the number of changes until then.
func (h *holds[K]) waitEmpty(ctx context.Context) (changes uint64, err error) {
	h.mu.Lock()
	for h.n > 0 {
		if h.empty == nil {
			h.empty = make(chan struct{})
		}
		empty := h.empty
		h.mu.Unlock()
		select {
		case <-empty:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	return h.changes, nil
}

// unchanged tells whether nothing was held since waitEmpty has returned changes.
func (h *holds[K]) unchanged(changes uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes == changes
}

// release notes that n keys that were held have been added to the queue.
func (h *holds[K]) release(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.countLocked(-n)
}

func (h *holds[K]) countLocked(delta int) {
	h.n += delta
	h.changes++
	if h.n == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}
