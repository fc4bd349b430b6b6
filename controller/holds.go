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

// Pause makes c begin no reconciles until [Controller.Resume]. Those in flight go on. What is added meanwhile waits, and
// so does what is to be drained when a Run ends: it is left to the next. A controller stays paused from one Run to the next.
// Watches go on, and so does everything that waits for a time.
func (c *Controller[K]) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	if c.crew != nil {
		c.crew.resizeLocked(0)
	}
	if c.stopDrain != nil {
		c.stopDrain()
	}
}

// Resume ends a [Controller.Pause].
func (c *Controller[K]) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	if c.crew != nil {
		c.crew.resizeLocked(c.workers)
	}
}

// SetWorkers changes the number of keys that are reconciled at once, for this Run and those that follow. When there are
// too many workers, some end when they have done what they do. SetWorkers panics if n is not positive: see
// [Controller.Pause].
func (c *Controller[K]) SetWorkers(n int) {
	if n <= 0 {
		panic("controller: SetWorkers called with a number that is not positive")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = n
	if c.crew != nil && !c.paused {
		c.crew.resizeLocked(n)
	}
}

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. One that is in flight goes on. If the key is
// added meanwhile it is held, until then.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	h := &c.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.paused == nil {
		h.paused = make(map[K]bool)
	}
	if _, ok := h.paused[key]; !ok {
		h.paused[key] = false
	}
	h.pausing.Store(true)
}

// ResumeKey ends a [Controller.PauseKey]. The key is reconciled if it was added meanwhile.
func (c *Controller[K]) ResumeKey(key K) {
	if c.holds.unpause(key) {
		c.add(key, AddOptions{}, false)
		c.holds.release(1)
	}
}

// holdPaused holds key if it is paused.
func (h *holds[K]) holdPaused(key K) bool {
	if !h.pausing.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	held, paused := h.paused[key]
	if paused && !held {
		h.paused[key] = true
		h.countLocked(+1)
	}
	return paused
}

// unpause ends the pause of key. It returns true if the key was held: then the caller adds and releases it.
func (h *holds[K]) unpause(key K) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.paused[key]
	delete(h.paused, key)
	h.pausing.Store(len(h.paused) > 0)
	return held
}

// laterKey is a key for the next Run.
type laterKey[K comparable] struct {
	key  K
	opts AddOptions
}

// divert makes leave take keys: a Run drains, and what is added from now on shall not keep it from ending.
func (h *holds[K]) divert() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = make(map[K]int)
	h.diverting.Store(true)
}

// leave leaves a key to the next Run. It returns false if no Run drains.
func (h *holds[K]) leave(key K, opts AddOptions) bool {
	if !h.diverting.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.diverting.Load() { // it has ended since
		return false
	}
	if i, ok := h.places[key]; ok {
		known := &h.later[i].opts
		known.Priority = max(known.Priority, opts.Priority)
		if opts.Reason != "" {
			known.Reason = opts.Reason
		}
		return true
	}
	h.places[key] = len(h.later)
	h.later = append(h.later, laterKey[K]{key, opts})
	h.countLocked(+1)
	return true
}

// undivert returns the keys that were left to the next Run, in the order in which they came. They are held until they are
// released. From now on leave takes none.
func (h *holds[K]) undivert() []laterKey[K] {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := h.later
	h.later, h.places = nil, nil
	h.diverting.Store(false)
	return keys
}
