package informer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// listener calls one handler. The handler's pending changes are in a backlog, and a goroutine of the listener makes the calls for
// them. Without Run, [Steps.Deliver] makes the calls in the goroutine of its caller.
//
// The objects that were in the cache when the handler joined come first, from a snapshot of the cache. If such an object has
// changed meanwhile, its change in the backlog is merged with it: the handler gets the present state as initial, or nothing if the
// object is gone. A new object under the key of a deleted one stays in the backlog.
type listener[K comparable, T any] struct {
	name    string
	handler Handler[K, T]
	onError func(error)
	seed    maphash.Seed // of the hashes of the backlog

	synced chan struct{} // closed by run when OnAdd has returned for every initial object
	wake   chan struct{} // holds a token if the backlog may have something; sent when something is added, received by run
	gone   chan struct{} // closed, with mu held, by dismiss
	done   chan struct{} // closed, with mu held, when the listener is dismissed and not busy
	in     *Informer[K, T]
	reg    *Registration // of the handler; set by AddHandler

	period    time.Duration // of resyncs; 0 for none
	due       time.Time     // of the next resync; used by the goroutine of Run only
	resyncing bool          // used by the goroutine of Run only

	// Used only by the goroutine that is busy with the listener.
	initial   present[K, T] // comes before backlog
	object    item[K, T]    // the item of an initial object
	current   *item[K, T]   // the calls for it have begun
	owes      bool          // OnAdd is yet to be called for current
	hasSynced bool          // synced is closed
	calling   string        // the function that is called
	calls     uint64        // that have begun, without those of Filter

	mu sync.Mutex
	// mu guards the following. Invariant: done is closed if and only if the listener is dismissed and not busy.
	backlog   backlog[K, T]
	taken     uint64 // items of the backlog so far
	asks      []*ask[K, T]
	dismissed bool
	busy      bool // a goroutine makes calls, or is about to: run, from the join to its end, or a Deliver
}

func newListener[K comparable, T any](in *Informer[K, T], name string, h Handler[K, T]) *listener[K, T] {
	cfg, seed := in.cfg, in.applier.seed
	return &listener[K, T]{
		in: in, name: name, handler: h, onError: cfg.OnError, seed: seed, period: max(cmp.Or(h.ResyncPeriod, cfg.ResyncPeriod), 0),
		synced: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
		backlog: backlog[K, T]{every: h.EveryEvent},
	}
}

// tell adds changes to the backlog.
func (l *listener[K, T]) tell(changes []change[K, T]) {
	if len(changes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return
	}
	for i := range changes {
		l.backlog.add(&changes[i])
	}
	l.signal()
}

// run calls the handler until ctx ends or the listener is dismissed. At its end the backlog is empty, also if the handler has ended
// the goroutine.
func (l *listener[K, T]) run(ctx context.Context) {
	defer l.leave()
	returned := false
	defer func() {
		l.dismiss()
		if !returned {
			l.onError(fmt.Errorf("informer: call %s of %s: it has called runtime.Goexit, and is called no more", l.calling, l.name))
		}
	}()
	for ctx.Err() == nil && !isClosed(l.gone) {
		for l.work(ctx, math.MaxUint64) {
		}
		select {
		case <-l.wake:
		case <-l.gone:
		case <-ctx.Done():
		}
	}
	returned = true
}

// deliver makes one call, and reports whether it did. The caller has entered l.
func (l *listener[K, T]) deliver() bool {
	until := l.calls + 1
	for l.work(context.Background(), until) && l.calls < until {
	}
	return l.calls == until
}

// work makes calls until their number is until, no change is pending, or ctx ends. It returns true if a call has panicked: more may
// be pending.
func (l *listener[K, T]) work(ctx context.Context, until uint64) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			l.report(v)
			panicked = true
		}
	}()
	for l.calls < until && l.step(ctx) {
	}
	return false
}

// step makes the call that is owed, or begins the next item, which is at most one call. It returns false if no call is owed and
// there is no next item, or if ctx has ended.
func (l *listener[K, T]) step(ctx context.Context) bool {
	if l.owes {
		l.owes = false
		if !isClosed(l.gone) {
			l.call("OnAdd")
			l.handler.OnAdd(l.current.now.object, l.current.initial)
		}
		return true
	}
	if ctx.Err() != nil || isClosed(l.gone) || !l.take() {
		return false
	}
	l.begin(l.current)
	return true
}

// call records that a function of the handler is called.
func (l *listener[K, T]) call(function string) {
	l.calling = function
	l.calls++
}

// dismiss empties the backlog, and prevents further calls.
func (l *listener[K, T]) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return
	}
	l.dismissed = true
	l.backlog.clear()
	close(l.gone)
	if !l.busy {
		l.endLocked()
	}
}

// enter makes the listener busy for the caller, until it calls leave. It returns false if another goroutine has entered l, or l is
// dismissed.
func (l *listener[K, T]) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.dismissed {
		return false
	}
	l.busy = true
	return true
}

// leave ends enter.
func (l *listener[K, T]) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if l.dismissed {
		l.endLocked()
	} else if !l.owes {
		l.answerLocked()
	}
}

// endLocked releases everything, when no further call is made.
func (l *listener[K, T]) endLocked() {
	l.initial.end()
	l.current, l.object = nil, item[K, T]{} // the Registration keeps l alive
	close(l.done)
}

// take makes the next item the current one. The calls for the previous one have returned or panicked. It returns false if there is
// no item.
func (l *listener[K, T]) take() bool {
	if !l.hasSynced {
		if l.takeInitial() {
			return true
		}
		l.sync()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		l.backlog.release(l.current) // also object, which is no longer needed
	}
	l.answerLocked()
	if l.current = l.backlog.take(); l.current == nil {
		return false
	}
	l.taken++
	return true
}

// sync records that no initial object is left.
func (l *listener[K, T]) sync() {
	l.hasSynced = true
	close(l.synced)
}

// syncIfTold calls sync if no initial object is left, without taking the next item. The caller has entered l.
func (l *listener[K, T]) syncIfTold() {
	if !l.hasSynced && !l.owes && !isClosed(l.gone) && l.initial.first() == nil {
		l.sync()
	}
}

// takeInitial makes the next initial object the current item. It skips objects that are gone: they are not reported. It returns
// false if there are no more.
func (l *listener[K, T]) takeInitial() bool {
	for {
		o := l.initial.first()
		if o == nil {
			return false
		}
		l.object = item[K, T]{key: o.key, hash: maphash.Comparable(l.seed, o.key), now: state[T]{o.obj, true}, initial: true}
		l.initial.pass()
		if l.merge(&l.object) {
			l.current = &l.object
			return true
		}
	}
}

// merge merges an initial object with its later changes. It returns false if the object is gone.
func (l *listener[K, T]) merge(it *item[K, T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	waits := l.backlog.find(it.hash, it.key)
	switch {
	case waits == nil:
	case waits.gone:
		l.backlog.forgetKnown(waits)
		return false
	default:
		it.now = waits.now
		l.backlog.remove(waits)
		l.backlog.release(waits)
	}
	return true
}

// signal wakes run. It never blocks.
func (l *listener[K, T]) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a token is there
	}
}

// begin makes the call for an item. It leaves a call of OnAdd to step, so that OnAdd is called even if OnDelete panics.
func (l *listener[K, T]) begin(it *item[K, T]) {
	h := &l.handler
	had, has := l.passes(&it.known), l.passes(&it.now)
	left := had && !(it.gone && l.passes(&state[T]{it.last, true})) // the filter; if the object was deleted, before the deletion
	if h.Filter != nil && isClosed(l.gone) {
		return // a call removed the handler, which may be a call of Filter: no call follows it
	}
	if had && has && !it.gone {
		switch {
		case it.resync && h.OnResync != nil:
			l.call("OnResync")
			h.OnResync(it.now.object)
		case h.OnUpdate != nil:
			l.call("OnUpdate")
			h.OnUpdate(it.known.object, it.now.object)
		}
		return
	}
	l.owes = has && h.OnAdd != nil
	if had && h.OnDelete != nil {
		tombstone := cache.Tombstone[K, T]{Key: it.key, Object: it.last, FinalStateUnknown: it.missed}
		if left {
			tombstone = cache.Tombstone[K, T]{Key: it.key, Object: it.known.object}
		}
		l.call("OnDelete")
		h.OnDelete(tombstone)
	}
}

// passes reports whether s is present and passes the Filter.
func (l *listener[K, T]) passes(s *state[T]) bool {
	if !s.present || l.handler.Filter == nil {
		return s.present
	}
	return !isClosed(l.gone) && l.filter(s.object)
}

func (l *listener[K, T]) filter(obj T) (pass bool) {
	l.calling = "Filter"
	defer func() {
		if v := recover(); v != nil {
			l.report(v)
			pass = false
		}
	}()
	return l.handler.Filter(obj)
}

// report reports a panic of the handler.
func (l *listener[K, T]) report(v any) {
	err := &wait.PanicError{Value: v, Stack: debug.Stack()}
	l.onError(fmt.Errorf("informer: call %s of %s: %w", l.calling, l.name, err))
}

// isClosed reports whether ch, on which nobody sends, is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
