package waiters

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Keys are the keys with waiters. The zero value is ready for use. It is safe for concurrent use.
type Keys[K comparable] struct {
	n atomic.Int64 // of all waiters; written with mu held

	mu sync.Mutex
	// mu guards the following, and the fields of each waiter that say so.
	keys map[K][]*Waiter
}

// Waiter is a caller that waits until a key is reconciled.
type Waiter struct {
	ready func() bool // reports whether a reconcile that begins now counts
	done  chan error  // buffered; gets one value, when a reconcile has decided

	rides   bool // guarded by mu: the reconcile in flight began late enough
	decided bool // guarded by mu
}

// New returns a waiter. It is not answered by a reconcile at whose beginning ready returned false.
func New(ready func() bool) *Waiter { return &Waiter{ready: ready, done: make(chan error, 1)} }

// Done returns the channel that gets the answer: nil after a success.
func (w *Waiter) Done() <-chan error { return w.done }

// Enter makes w wait for key.
func (ws *Keys[K]) Enter(key K, w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.keys == nil {
		ws.keys = make(map[K][]*Waiter)
	}
	ws.keys[key] = append(ws.keys[key], w)
	ws.n.Add(1)
}

// Leave undoes Enter. It is called once after each Enter.
func (ws *Keys[K]) Leave(key K, w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.n.Add(-1)
	ws.keys[key] = slices.DeleteFunc(ws.keys[key], func(other *Waiter) bool { return other == w })
	if len(ws.keys[key]) == 0 {
		delete(ws.keys, key)
	}
}

// Served reports whether a reconcile has decided for w, or the one in flight may.
func (ws *Keys[K]) Served(w *Waiter) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.rides || w.decided
}

// Len returns the number of waiters.
func (ws *Keys[K]) Len() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	n := 0
	for _, of := range ws.keys {
		n += len(of)
	}
	return max(n, int(ws.n.Load()))
}

// Begin records that a reconcile of key begins.
func (ws *Keys[K]) Begin(key K) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	waiting := slices.Clone(ws.keys[key])
	ws.mu.Unlock()
	for _, w := range waiting {
		rides := w.ready()
		ws.mu.Lock()
		w.rides = rides
		ws.mu.Unlock()
	}
}

// Verdict is the result of a reconcile, for its waiters.
type Verdict struct {
	waiters []*Waiter
	err     error
}

// Tell passes the verdict to the waiters.
func (v Verdict) Tell() {
	for _, w := range v.waiters {
		w.done <- v.err // it has room
	}
}

// Any reports whether there are waiters.
func (ws *Keys[K]) Any() bool { return ws.n.Load() > 0 }

// End records that the reconcile of key has ended, whether that decides, and with which error. The caller must call Tell of the verdict.
func (ws *Keys[K]) End(key K, decides bool, err error) (told Verdict) {
	if ws.n.Load() == 0 {
		return Verdict{}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.keys[key] {
		if w.rides && decides && !w.decided {
			w.decided = true
			told.waiters = append(told.waiters, w)
		}
		w.rides = false
	}
	told.err = err
	return told
}
