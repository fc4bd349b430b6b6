package delivery

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"runtime/debug"
	"sync"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// Handler has the functions that a [Listener] calls. Each may be nil. The fields of informer.Handler have the same names, and document
// their meaning.
type Handler[K comparable, T any] struct {
	OnAdd      func(obj T, inInitialList bool)
	OnUpdate   func(old, new T)
	OnResync   func(obj T)
	OnDelete   func(cache.Tombstone[K, T])
	Filter     func(T) bool
	EveryEvent bool
}

// Listener calls one handler. The handler's pending changes are in a backlog. [Listener.Run] makes the calls for them, or
// [Listener.Deliver], one at a time.
//
// The objects that were in the cache when the handler joined come first, from a snapshot of the cache. If such an object has
// changed meanwhile, its change in the backlog is merged with it: the handler gets the present state as initial, or nothing if the
// object is gone. A new object under the key of a deleted one stays in the backlog.
//
// Several goroutines may call its methods concurrently, except where a method says that it needs [Listener.Enter].
type Listener[K comparable, T any] struct {
	name    string
	handler Handler[K, T]
	onError func(error)
	seed    maphash.Seed // of the hashes of the backlog

	synced chan struct{} // closed when OnAdd has returned for every initial object
	wake   chan struct{} // holds a token if the backlog may have items; sent when an item is added, received by Run
	gone   chan struct{} // closed, with mu held, by Dismiss
	done   chan struct{} // closed, with mu held, when the listener is dismissed and not busy

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
	dismissed bool
	busy      bool // a goroutine makes calls, or is about to
}

// New returns a listener that calls h. Its errors have its name. seed is that of the hashes of all changes passed to Tell.
func New[K comparable, T any](name string, h Handler[K, T], seed maphash.Seed, onError func(error)) *Listener[K, T] {
	return &Listener[K, T]{
		name: name, handler: h, onError: onError, seed: seed,
		synced: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
		backlog: backlog[K, T]{every: h.EveryEvent},
	}
}

// Waiting returns the number of changes that are pending, without initial objects.
func (l *Listener[K, T]) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.n
}

// Name returns the name from New.
func (l *Listener[K, T]) Name() string { return l.name }

// Synced returns a channel that is closed when OnAdd has returned for every initial object.
func (l *Listener[K, T]) Synced() <-chan struct{} { return l.synced }

// Gone returns a channel that is closed when l is dismissed.
func (l *Listener[K, T]) Gone() <-chan struct{} { return l.gone }

// Begin makes the objects of a snapshot the initial ones. Changes made after it must be passed to Tell after Begin. The caller has entered
// l.
func (l *Listener[K, T]) Begin(s *cache.Snapshot[K, T]) {
	if s.Len() > 0 {
		l.initial = presentOf(s)
	} else if !isClosed(l.gone) {
		l.sync() // here, because the first Deliver may never come
	}
}

// Tell adds changes to the backlog.
func (l *Listener[K, T]) Tell(changes []Change[K, T]) {
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

// Run makes calls until ctx ends or l is dismissed. Then l is dismissed, even if the handler has ended the goroutine. The caller has
// entered l; Run leaves it.
func (l *Listener[K, T]) Run(ctx context.Context) {
	defer l.Leave()
	returned := false
	defer func() {
		l.Dismiss()
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

// Deliver makes one call, and reports whether it did. It returns false if another goroutine has entered l, or l is dismissed.
func (l *Listener[K, T]) Deliver() bool {
	if !l.Enter() {
		return false
	}
	defer l.Leave()
	until := l.calls + 1
	for l.work(context.Background(), until) && l.calls < until {
	}
	if !l.hasSynced && !l.owes && !isClosed(l.gone) && l.initial.first() == nil {
		l.sync() // without checking the next item, which a later Deliver may never take
	}
	return l.calls == until
}

// work makes calls until their number is until, no change is pending, or ctx ends. It returns true if a call has panicked: more changes may
// be pending.
func (l *Listener[K, T]) work(ctx context.Context, until uint64) (panicked bool) {
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
func (l *Listener[K, T]) step(ctx context.Context) bool {
	if l.owes {
		l.owes = false
		if !isClosed(l.gone) {
			l.call("OnAdd")
			l.handler.OnAdd(l.current.now.Object, l.current.initial)
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
func (l *Listener[K, T]) call(function string) {
	l.calling = function
	l.calls++
}

// Dismiss drops the pending changes, and prevents further calls. It returns a channel that is closed when none is running.
func (l *Listener[K, T]) Dismiss() (done <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return l.done
	}
	l.dismissed = true
	l.backlog.clear()
	close(l.gone)
	if !l.busy {
		l.endLocked()
	}
	return l.done
}

// Enter makes l busy for the caller, until it calls Leave. It returns false if another goroutine has entered l, or l is dismissed.
func (l *Listener[K, T]) Enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || l.dismissed {
		return false
	}
	l.busy = true
	return true
}

// Leave ends Enter.
func (l *Listener[K, T]) Leave() {
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
func (l *Listener[K, T]) endLocked() {
	l.initial.end()
	l.current, l.object = nil, item[K, T]{} // the Registration keeps l alive
	close(l.done)
}

// take makes the next item the current one. The calls for the previous one have returned or panicked. It returns false if there is
// no item.
func (l *Listener[K, T]) take() bool {
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
	l.current = l.backlog.take()
	return l.current != nil
}

// sync records that no initial object is left.
func (l *Listener[K, T]) sync() {
	l.hasSynced = true
	close(l.synced)
}

// takeInitial makes the next initial object the current item. It skips objects that are gone: they are not reported. It returns
// false if there are no more.
func (l *Listener[K, T]) takeInitial() bool {
	for {
		o := l.initial.first()
		if o == nil {
			return false
		}
		l.object = item[K, T]{key: o.key, hash: maphash.Comparable(l.seed, o.key), now: State[T]{o.obj, true}, initial: true}
		l.initial.pass()
		if l.merge(&l.object) {
			l.current = &l.object
			return true
		}
	}
}

// merge merges an initial object with its later changes. It returns false if the object is gone.
func (l *Listener[K, T]) merge(it *item[K, T]) bool {
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
func (l *Listener[K, T]) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a token is already there
	}
}

// begin makes the call for an item. It leaves a call of OnAdd to step, so that OnAdd is called even if OnDelete panics.
func (l *Listener[K, T]) begin(it *item[K, T]) {
	h := &l.handler
	had, has := l.passes(&it.known), l.passes(&it.now)
	left := had && !(it.gone && l.passes(&State[T]{it.last, true})) // the filter; if the object was deleted, before the deletion
	if h.Filter != nil && isClosed(l.gone) {
		return // a call removed the handler, perhaps a call of Filter: no call follows it
	}
	if had && has && !it.gone {
		switch {
		case it.resync && h.OnResync != nil:
			l.call("OnResync")
			h.OnResync(it.now.Object)
		case h.OnUpdate != nil:
			l.call("OnUpdate")
			h.OnUpdate(it.known.Object, it.now.Object)
		}
		return
	}
	l.owes = has && h.OnAdd != nil
	if had && h.OnDelete != nil {
		tombstone := cache.Tombstone[K, T]{Key: it.key, Object: it.last, FinalStateUnknown: it.missed}
		if left {
			tombstone = cache.Tombstone[K, T]{Key: it.key, Object: it.known.Object}
		}
		l.call("OnDelete")
		h.OnDelete(tombstone)
	}
}

// passes reports whether s is present and passes the Filter.
func (l *Listener[K, T]) passes(s *State[T]) bool {
	if !s.Present || l.handler.Filter == nil {
		return s.Present
	}
	return !isClosed(l.gone) && l.filter(s.Object)
}

func (l *Listener[K, T]) filter(obj T) (pass bool) {
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
func (l *Listener[K, T]) report(v any) {
	err := &wait.PanicError{Value: v, Stack: debug.Stack()}
	l.onError(fmt.Errorf("informer: call %s of %s: %w", l.calling, l.name, err))
}

// isClosed reports whether ch, which never carries a value, is closed.
func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
