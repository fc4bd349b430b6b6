package informer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/wait"
)

// listener calls one handler, and is its [Registration]. The handler's pending changes are in a backlog. The goroutine of run makes the calls
// for them, or deliver, one at a time. An inline handler is called by the goroutine of Informer.Run: after it has joined, by callPending for what is
// pending, and from then on by call for each change, without a backlog.
//
// The objects that were in the cache when the handler joined come first, from a snapshot of the cache. If such an object has
// changed meanwhile, its change in the backlog is merged with it: the handler gets the present state as initial, or nothing if the
// object was deleted. A new object under the key of a deleted one stays in the backlog.
//
// Guarantees 6, 8, 9, 11, and 13 of the package rest on these:
//
//  1. Calls do not overlap. For each key, they are OnAdd, any number of OnUpdate and OnResync, OnDelete, and then OnAdd again. The old
//     state of an update is the new state of the call before.
//  2. The initial objects come first, in their current state, followed by the changes in the order of add.
//  3. The pending changes of a key are merged: there is one item for each key, and the last call of a key is for its last state. With
//     EveryEvent, there is an item for each change.
//  4. add never waits for a call. Only Inline makes the cache wait for calls.
//  5. After stop no call begins, and done is closed when none is running. A call may stop its own listener.
//  6. A call that panics is reported, with its stack, and is not repeated.
//
// Several goroutines may call its methods concurrently, except where a method says that the caller has acquired the listener.
type listener[K comparable, T any] struct {
	in      *Informer[K, T]
	name    string
	handler Handler[K, T]
	period  time.Duration // of resyncs; 0 for none

	synced  chan struct{} // closed when OnAdd has returned for every initial object
	wake    chan struct{} // holds a token if the backlog may have items; sent when an item is added, received by run
	stopped chan struct{} // closed, with mu held, by stop
	done    chan struct{} // closed, with mu held, when the listener is stopped and not busy

	// Used only by the goroutine of Informer.Run.
	due       time.Time // of the next resync
	resyncing bool
	direct    bool // the handler is inline, and nothing is pending: the next change is passed to call

	// Used only by the goroutine that has acquired the listener.
	initial   initial[K, T] // comes before backlog
	object    item[K, T]    // the item of an initial object
	current   *item[K, T]   // its calls have begun
	addNext   bool          // the next call is OnAdd, for current
	hasSynced bool          // synced is closed
	calling   string        // the function that is called
	calls     uint64        // that have begun, without those of Filter

	mu sync.Mutex
	// mu guards the following. Invariant: done is closed if and only if the listener is stopped and not busy.
	backlog backlog[K, T]
	busy    bool // a goroutine has acquired the listener: it makes calls, or is about to
}

func newListener[K comparable, T any](in *Informer[K, T], name string, h Handler[K, T]) *listener[K, T] {
	return &listener[K, T]{
		in: in, name: name, handler: h, period: max(cmp.Or(h.ResyncPeriod, in.cfg.ResyncPeriod), 0),
		synced: make(chan struct{}), wake: make(chan struct{}, 1), stopped: make(chan struct{}), done: make(chan struct{}),
		backlog: backlog[K, T]{every: h.EveryEvent || h.Inline},
	}
}

// Name implements [Registration].
func (l *listener[K, T]) Name() string { return l.name }

// Synced implements [Registration].
func (l *listener[K, T]) Synced() <-chan struct{} { return l.synced }

// HasSynced implements [Registration].
func (l *listener[K, T]) HasSynced() bool { return broadcast.IsClosed(l.synced) }

// Remove implements [Registration].
func (l *listener[K, T]) Remove() (done <-chan struct{}) {
	l.in.remove(l)
	l.stop()
	return l.done
}

// pending returns the number of changes in the backlog.
func (l *listener[K, T]) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.n
}

// join makes the objects of a snapshot the initial ones. Changes made after it must be passed to add after join. The caller has acquired l.
func (l *listener[K, T]) join(s *cache.Snapshot[K, T]) {
	if s.Len() > 0 {
		l.initial = initialOf(s)
	} else if !broadcast.IsClosed(l.stopped) {
		l.sync() // here, because the first deliver may never come
	}
}

// add adds changes to the backlog. A listener that was stopped drops them.
func (l *listener[K, T]) add(changes []change[K, T]) {
	if len(changes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if broadcast.IsClosed(l.stopped) {
		return
	}
	for i := range changes {
		l.backlog.add(&changes[i])
	}
	l.signal()
}

// signal wakes run. It never blocks.
func (l *listener[K, T]) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a token is already there
	}
}

// run makes calls until ctx ends or l is stopped. Then l is stopped, even if the handler has ended the goroutine. The caller has
// acquired l; run releases it.
func (l *listener[K, T]) run(ctx context.Context) {
	defer l.release()
	returned := false
	defer func() {
		l.stop()
		if !returned {
			l.in.cfg.OnError(fmt.Errorf("informer: call %s of %s: it has called runtime.Goexit, and is called no more", l.calling, l.name))
		}
	}()
	for ctx.Err() == nil && !broadcast.IsClosed(l.stopped) {
		for l.step(ctx) {
		}
		select {
		case <-l.wake:
		case <-l.stopped:
		case <-ctx.Done():
		}
	}
	returned = true
}

// deliver makes one call, and reports whether it did. It returns false if another goroutine has acquired l, or l is stopped or inline.
func (l *listener[K, T]) deliver() bool {
	if l.handler.Inline || !l.acquire() {
		return false
	}
	defer l.release()
	until := l.calls + 1
	for l.calls < until && l.step(context.Background()) {
	}
	if !l.hasSynced && !l.addNext && !broadcast.IsClosed(l.stopped) && l.initial.first() == nil {
		l.sync() // without checking the next item, which a later deliver may never take
	}
	return l.calls == until
}

// step makes the call of OnAdd that comes next, or begins the next item, which is at most one call. It returns false if there is neither, or
// if ctx has ended.
func (l *listener[K, T]) step(ctx context.Context) bool {
	if l.addNext {
		l.callAdd()
		return true
	}
	if ctx.Err() != nil || broadcast.IsClosed(l.stopped) || !l.take() {
		return false
	}
	l.callFor(l.current)
	return true
}

// callPending makes the calls for up to n of the initial objects and changes that are pending for an inline handler, and returns false when
// nothing is pending anymore.
func (l *listener[K, T]) callPending(n int) (more bool) {
	if !l.acquire() {
		return false
	}
	l.in.calling.Store(&l.name)
	returned := false
	defer l.endInline(&returned)
	for more = true; more && n > 0; n-- {
		if more = l.step(context.Background()); l.addNext {
			l.callAdd()
		}
	}
	if !more {
		l.direct = true
		l.forgetItems()
	}
	returned = true
	return more
}

// forgetItems frees the items of the backlog, which is empty and no longer needed.
func (l *listener[K, T]) forgetItems() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.backlog.free, l.backlog.nfree = nil, nil, 0
}

// call makes the calls for changes. The listener is direct.
func (l *listener[K, T]) call(changes []change[K, T]) {
	if len(changes) == 0 || !l.acquire() {
		return
	}
	l.in.calling.Store(&l.name)
	returned := false
	defer l.endInline(&returned)
	for i := range changes {
		if broadcast.IsClosed(l.stopped) {
			break
		}
		l.object = itemOf(&changes[i])
		l.current = &l.object
		if l.callFor(l.current); l.addNext {
			l.callAdd()
		}
	}
	l.object = item[K, T]{}
	returned = true
}

// endInline ends callPending and call. If a call has ended the goroutine, it stops the listener: Run cannot go on either.
func (l *listener[K, T]) endInline(returned *bool) {
	if !*returned {
		l.stop()
		l.in.cfg.OnError(fmt.Errorf("informer: call %s of %s: it has called runtime.Goexit, which ends Run", l.calling, l.name))
	}
	l.in.calling.Store(nil)
	l.release()
}

// count counts a call of a function of the handler, which is about to begin.
func (l *listener[K, T]) count(function string) {
	l.calling = function
	l.calls++
}

// stop drops the pending changes, and prevents further calls. done is closed when none is running.
func (l *listener[K, T]) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if broadcast.IsClosed(l.stopped) {
		return
	}
	l.backlog.clear()
	close(l.stopped)
	if !l.busy {
		l.endLocked()
	}
}

// acquire makes l busy for the caller, until it calls release. It returns false if another goroutine has acquired l, or l is stopped.
func (l *listener[K, T]) acquire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy || broadcast.IsClosed(l.stopped) {
		return false
	}
	l.busy = true
	return true
}

// release ends acquire.
func (l *listener[K, T]) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	if broadcast.IsClosed(l.stopped) {
		l.endLocked()
	} else if !l.addNext {
		l.flushLocked()
	}
}

// endLocked frees everything, when no further call is made.
func (l *listener[K, T]) endLocked() {
	l.initial.end()
	l.current, l.object = nil, item[K, T]{} // whoever holds the Registration keeps l alive
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
	l.flushLocked()
	l.current = l.backlog.take()
	return l.current != nil
}

// sync closes synced: no initial object is left.
func (l *listener[K, T]) sync() {
	l.hasSynced = true
	close(l.synced)
}

// takeInitial makes the next initial object the current item. It skips objects that were deleted: they are not reported. It returns
// false if there are no more.
func (l *listener[K, T]) takeInitial() bool {
	for {
		o := l.initial.first()
		if o == nil {
			return false
		}
		hash := maphash.Comparable(l.in.applier.seed, o.key)
		l.object = item[K, T]{key: o.key, hash: hash, now: state[T]{o.obj, true}, initial: true}
		l.initial.pass()
		if l.merge(&l.object) {
			l.current = &l.object
			return true
		}
	}
}

// merge merges an initial object with its later changes. It returns false if the object was deleted.
func (l *listener[K, T]) merge(it *item[K, T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	later := l.backlog.find(it.hash, it.key)
	switch {
	case later == nil:
	case later.deleted:
		l.backlog.forgetReported(later)
		return false
	default:
		it.now = later.now
		l.backlog.remove(later)
		l.backlog.release(later)
	}
	return true
}

// callFor makes the call for an item. It leaves a call of OnAdd to callAdd, so that OnAdd is called even if OnDelete panics.
func (l *listener[K, T]) callFor(it *item[K, T]) {
	defer l.capture()
	h := &l.handler
	before, now := l.passes(&it.reported), l.passes(&it.now)
	left := before && !(it.deleted && l.passes(&state[T]{it.final, true})) // the filter; if the object was deleted, before the deletion
	if h.Filter != nil && broadcast.IsClosed(l.stopped) {
		return // a call removed the handler, perhaps a call of Filter: no call follows it
	}
	if before && now && !it.deleted {
		switch {
		case it.resync && h.OnResync != nil:
			l.count("OnResync")
			h.OnResync(it.now.object)
		case h.OnUpdate != nil:
			l.count("OnUpdate")
			h.OnUpdate(it.reported.object, it.now.object)
		}
		return
	}
	l.addNext = now && h.OnAdd != nil
	switch {
	case !before:
	case it.dropped:
		if h.OnDrop != nil {
			l.count("OnDrop")
			h.OnDrop(it.reported.object)
		}
	case h.OnDelete != nil:
		tombstone := cache.Tombstone[K, T]{Key: it.key, Object: it.final, Previous: it.reported.object, FinalStateUnknown: it.missed}
		if left {
			tombstone.Object, tombstone.FinalStateUnknown = it.reported.object, false
		}
		l.count("OnDelete")
		h.OnDelete(tombstone)
	}
}

// callAdd makes the call of OnAdd that callFor has left.
func (l *listener[K, T]) callAdd() {
	defer l.capture()
	l.addNext = false
	if !broadcast.IsClosed(l.stopped) {
		l.count("OnAdd")
		l.handler.OnAdd(l.current.now.object, l.current.initial)
	}
}

// capture reports a panic of a call. It is deferred.
func (l *listener[K, T]) capture() {
	if v := recover(); v != nil {
		l.report(v)
	}
}

// passes reports whether s is present and passes the Filter.
func (l *listener[K, T]) passes(s *state[T]) bool {
	if !s.present || l.handler.Filter == nil {
		return s.present
	}
	return !broadcast.IsClosed(l.stopped) && l.filter(s.object)
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
	l.in.cfg.OnError(fmt.Errorf("informer: call %s of %s: %w", l.calling, l.name, err))
}

// flush is a call of [Registration.WaitIdle]. It waits for the end of a step, because Run changes the cache before it adds the changes to the
// backlog: by then the backlog has the changes for everything that was in the cache when WaitIdle was called. Then it waits for the calls for
// all items up to last. If last is removed, because it was taken or because its change was undone, the item before it takes its place.
type flush[K comparable, T any] struct {
	done   chan struct{} // closed by the listener, with its mu held
	placed bool          // a step has set last
	last   *item[K, T]   // in the backlog; nil if the calls have been made, or the current one is the last of them
}

// WaitIdle implements [Registration].
func (l *listener[K, T]) WaitIdle(ctx context.Context) error {
	if err := l.waitIdle(ctx); err != nil {
		return fmt.Errorf("informer: wait for %s to be idle: %w", l.name, err)
	}
	return nil
}

func (l *listener[K, T]) waitIdle(ctx context.Context) error {
	select {
	case <-l.synced: // so l has joined
	case <-l.stopped:
		return ErrEnded
	case <-l.in.ended: // l never joined
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	done := l.addFlush()
	defer l.dropFlush(done)
	l.in.flushing.Store(true)
	l.in.signal()
	var err error
	select {
	case <-done:
	case <-l.stopped:
		err = ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if broadcast.IsClosed(done) {
		return nil
	}
	return err
}

// addFlush adds a flush, which closes done.
func (l *listener[K, T]) addFlush() (done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done = make(chan struct{})
	l.backlog.flushes = append(l.backlog.flushes, flush[K, T]{done: done})
	return done
}

// dropFlush removes a flush, unless it was done.
func (l *listener[K, T]) dropFlush(done chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.flushes = slices.DeleteFunc(l.backlog.flushes, func(f flush[K, T]) bool { return f.done == done })
}

// placeFlushes makes new flushes wait for all that is pending now.
func (l *listener[K, T]) placeFlushes() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.backlog.flushes {
		if f := &l.backlog.flushes[i]; !f.placed {
			f.placed, f.last = true, l.backlog.last
		}
	}
	if !l.busy && !l.addNext && !broadcast.IsClosed(l.stopped) { // without run, the next deliver may never come
		l.flushLocked()
	}
	l.signal()
}

// flushLocked ends the flushes that are done. The calls for each item that was taken have returned.
func (l *listener[K, T]) flushLocked() {
	if len(l.backlog.flushes) == 0 { // nearly always
		return
	}
	l.backlog.flushes = slices.DeleteFunc(l.backlog.flushes, func(f flush[K, T]) bool {
		done := f.placed && f.last == nil
		if done {
			close(f.done)
		}
		return done
	})
}

// initial is the objects that were in the cache when a handler joined, and that the handler has yet to get. The zero value has no
// objects. It is not safe for concurrent use.
type initial[K comparable, T any] struct {
	piece []object[K, T] // objects that were read; the first one is next
	next  func() ([]object[K, T], bool)
	stop  func()
}

// initialOf returns all objects of s. The caller must call end.
func initialOf[K comparable, T any](s *cache.Snapshot[K, T]) initial[K, T] {
	var o initial[K, T]
	o.next, o.stop = iter.Pull(pieces(s.All(), min(s.Len(), pieceSize)))
	return o
}

// first returns the next object, or nil. It is valid until pass is called.
func (o *initial[K, T]) first() *object[K, T] {
	if len(o.piece) == 0 && o.next != nil {
		piece, ok := o.next()
		if !ok {
			o.end()
			return nil
		}
		o.piece = piece
	}
	if len(o.piece) == 0 {
		return nil
	}
	return &o.piece[0]
}

// pass advances to the next object.
func (o *initial[K, T]) pass() { o.piece = o.piece[1:] }

// end drops the remaining objects.
func (o *initial[K, T]) end() {
	if o.stop != nil {
		o.stop()
	}
	*o = initial[K, T]{}
}
