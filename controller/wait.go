package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Written is an object that a write to a store has returned. Any [store.Object] is one.
type Written interface {
	// At returns the kind of the object, and the version of the write.
	At() (kind string, version informer.Version)
}

// WaitReconciled waits until a reconcile of key has succeeded that began after the caches of c had seen the given writes.
//
//	site, err := sites.Update(ctx, site)
//	err = c.WaitReconciled(ctx, site.Key, site)
//
// It waits for each object in every informer of c ([Controller.Informers]) that mirrors the kind of the object. For a source that is not a
// store, call [informer.Informer.WaitForVersion] first. Without objects, the reconcile must begin after the call of WaitReconciled.
//
// If no such reconcile is in flight or about to begin, WaitReconciled adds the key. So it works for an old write, and for a key that no mapper
// returns.
//
// A reconcile succeeds if it returns no error. If it is unfinished, fails, or is canceled, WaitReconciled waits for the next one.
// While no Run reconciles the key, it waits too; the error of a
// wait that ctx has ended says if c is not running, has not synced, or is paused. If the key is parked instead, it returns an error that wraps [ErrParked] and the
// error of the reconcile. It also returns an error if ctx ends first, which wraps the cause of ctx; if an informer ends, which
// wraps [informer.ErrEnded]; if the key belongs to another replica ([Controller.Share]); and at once if no informer mirrors the
// kind of an object. It panics as Add does, and if an object is nil.
func (c *Controller[K]) WaitReconciled(ctx context.Context, key K, wrote ...Written) error {
	checkKey(key)
	seen, err := c.shows(wrote)
	if err == nil {
		err = c.waitReconciled(ctx, key, seen)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to reconcile %v: %w", c.name, key, c.idle(ctx, err))
	}
	return nil
}

// shows returns the versions that the caches of c must show after the given writes.
func (c *Controller[K]) shows(wrote []Written) (seen []cacheAt, err error) {
	for _, w := range wrote {
		if isNil(w) {
			panic("controller: WaitReconciled called with a nil object")
		}
		kind, version := w.At()
		caches := c.caches.of(kind)
		if len(caches) == 0 {
			return nil, fmt.Errorf("no informer of the controller mirrors a store of kind %q", kind)
		}
		for _, cache := range caches {
			seen = append(seen, cacheAt{cache, version})
		}
	}
	return seen, nil
}

func (c *Controller[K]) waitReconciled(ctx context.Context, key K, seen []cacheAt) error {
	w := newWaiter(func() bool { return !slices.ContainsFunc(seen, cacheAt.behind) })
	c.waiters.enter(key, w)
	defer c.waiters.leave(key, w)
	for _, s := range seen {
		if err := s.WaitForVersion(ctx, s.version); err != nil {
			return err
		}
	}
	c.waiters.ask(w)
	c.serve(key)
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve adds key if a waiter needs a reconcile of it and nothing else begins one. A key that is ready will begin one. If it is in flight, its
// reconcile has begun too early, or is about to begin: process calls serve again at the end.
func (c *Controller[K]) serve(key K) {
	if !c.waiters.any() {
		return
	}
	if info, _ := c.queue.Info(key); info.State == workqueue.Ready || info.State == workqueue.InProcess {
		return
	}
	if c.waiters.claim(key) {
		c.add(key, AddOptions{}, false)
	}
}

// cacheAt is a cache, and a version that it must show.
type cacheAt struct {
	versionedCache
	version informer.Version
}

// behind reports whether the cache does not show the version yet.
func (s cacheAt) behind() bool { return s.Version() < s.version }

// answer returns the result for callers of WaitReconciled about a reconcile of key that has ended.
func (c *Controller[K]) answer(key K, o Outcome, err error) waitResult {
	if !c.waiters.any() {
		return waitResult{}
	}
	decides := o == Succeeded || o == Parked || errors.Is(err, errNotOwned)
	if o == Parked {
		err = fmt.Errorf("%w: %w", ErrParked, err)
	}
	return c.waiters.end(key, decides, err)
}

// WaitIdle waits until everything that the caches of the watched informers hold at the call has been mapped. Then it waits
// for a moment with no key ready, in flight, or held.
//
// The watches belong to Run or to [Controller.Connect]. So if c watches informers, WaitIdle waits until one of these has
// connected the watches and the informers have synced. If the Run ends before the mappers are done, WaitIdle waits for the next
// Run.
//
// If c watches no informer, WaitIdle waits only for keys that were added. Between Runs, or while c is paused, ready keys stay
// ready.
//
// WaitIdle does not wait for keys that wait for a retry or a RequeueAfter, or for objects that wait to be mapped again:
// [Controller.Stats] counts them. Nor does it wait for changes that the caches do not show yet: use [Controller.WaitReconciled]
// after a write.
//
// WaitIdle returns an error that wraps the cause of ctx if ctx ends first, or [informer.ErrEnded] if an informer that c watches
// ends. Do not call WaitIdle from a mapper or a reconcile: it would wait for itself.
func (c *Controller[K]) WaitIdle(ctx context.Context) error {
	err := c.inputs.waitMapped(ctx)
	if err == nil {
		err = c.pending.waitIdle(ctx)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to be idle: %w", c.name, c.idle(ctx, err))
	}
	return nil
}

// idle returns err, the error of a wait. If ctx has ended while c reconciles nothing, the error says why.
func (c *Controller[K]) idle(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	c.mu.Lock()
	running, connected, syncing, paused := c.running, c.connected, c.working == nil, c.paused
	c.mu.Unlock()
	switch {
	case connected:
		return err // the caller drives it
	case !running:
		return fmt.Errorf("the controller is not running: %w", err)
	case syncing:
		return fmt.Errorf("the caches of the controller have not synced: %w", err)
	case paused:
		return fmt.Errorf("the controller is paused: %w", err)
	}
	return err
}

// waiters are the callers of WaitReconciled, by key. Each gets one answer, from the first decisive reconcile that began when the waiter was
// ready for it. Without a waiter, begin and end cost one atomic read. The zero value is ready for use. It is safe for concurrent use.
type waiters[K comparable] struct {
	n atomic.Int64 // of all waiters; written with mu held

	mu sync.Mutex
	// mu guards the following, and the fields of each waiter that say so.
	keys map[K][]*waiter
}

// waiter is a caller that waits until a key is reconciled.
type waiter struct {
	ready func() bool // reports whether a reconcile that begins now counts
	done  chan error  // buffered; gets one value, when a reconcile has decided: nil after a success

	asks    bool // guarded by mu: it needs another reconcile, and its key was not added for it
	rides   bool // guarded by mu: the reconcile in flight began late enough
	decided bool // guarded by mu
}

// newWaiter returns a waiter. It is not answered by a reconcile at whose beginning ready returned false.
func newWaiter(ready func() bool) *waiter { return &waiter{ready: ready, done: make(chan error, 1)} }

// enter makes w wait for key.
func (ws *waiters[K]) enter(key K, w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.keys == nil {
		ws.keys = make(map[K][]*waiter)
	}
	ws.keys[key] = append(ws.keys[key], w)
	ws.n.Add(1)
}

// leave undoes enter. It is called once after each enter.
func (ws *waiters[K]) leave(key K, w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.n.Add(-1)
	ws.keys[key] = slices.DeleteFunc(ws.keys[key], func(other *waiter) bool { return other == w })
	if len(ws.keys[key]) == 0 {
		delete(ws.keys, key)
	}
}

// ask records that w is ready. It needs another reconcile unless one has decided, or the one in flight will.
func (ws *waiters[K]) ask(w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.asks = !w.rides && !w.decided
}

// claim reports whether a waiter for key needs another reconcile, for which the caller adds the key. If a new history of a cache has begun, a
// waiter is not ready anymore.
func (ws *waiters[K]) claim(key K) (claimed bool) {
	for _, w := range ws.of(key) {
		ready := w.ready()
		ws.mu.Lock()
		claimed = claimed || ready && w.asks
		w.asks = w.asks && !ready
		ws.mu.Unlock()
	}
	return claimed
}

// of returns the waiters for key.
func (ws *waiters[K]) of(key K) []*waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return slices.Clone(ws.keys[key])
}

// begin records that a reconcile of key begins.
func (ws *waiters[K]) begin(key K) {
	if ws.n.Load() == 0 {
		return
	}
	for _, w := range ws.of(key) {
		rides := w.ready()
		ws.mu.Lock()
		w.rides, w.asks = rides, w.asks && !rides
		ws.mu.Unlock()
	}
}

// waitResult is the result of a reconcile, for its waiters.
type waitResult struct {
	waiters []*waiter
	err     error
}

// deliver passes r to the waiters.
func (r waitResult) deliver() {
	for _, w := range r.waiters {
		w.done <- r.err // it has room
	}
}

// any reports whether there are waiters.
func (ws *waiters[K]) any() bool { return ws.n.Load() > 0 }

// end records that the reconcile of key has ended, whether that decides, and with which error. The caller must call deliver of the result.
func (ws *waiters[K]) end(key K, decides bool, err error) (result waitResult) {
	if ws.n.Load() == 0 {
		return waitResult{}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range ws.keys[key] {
		if w.rides && decides && !w.decided {
			w.decided = true
			result.waiters = append(result.waiters, w)
		}
		w.rides = false
	}
	result.err = err
	return result
}
