package informer

import (
	"context"
	"fmt"
	"iter"
)

// Steps drives an informer in the goroutine of the caller, in the place of [Informer.Run]: it is for tests and simulations
// that decide what happens when. Run is a loop over the same steps, with a goroutine for the source, one for the cache, and
// one for each handler. [Informer.Steps] returns one.
//
//	steps, err := sites.Steps(ctx)
//	defer steps.Stop()
//	for sites.Version() < src.Version() {
//		steps.Read(ctx) // one list or event
//		steps.Apply()   // is in the cache
//	}
//	for _, handler := range steps.Handlers() {
//		for steps.Deliver(handler) { // one call after the other
//		}
//	}
//
// The guarantees of the package hold, whatever the order of the steps is. A step does not wait for time to pass, unless the
// source or a callback does.
//
// Read, Apply, and the Deliver of one handler may each be called by one goroutine at a time, and concurrently with each other.
// Stop is called when none of them runs. The methods of the informer may be called at any time.
type Steps[K comparable, T any] struct {
	in     *Informer[K, T]
	reader reader
	next   func() (read, ok bool)
	end    func() // of next
	cancel context.CancelFunc
	due    *timers[K, T]
}

// reader reads from a source step by step. The reflector runs as a coroutine, which Read resumes, and which pauses when it has
// read one thing.
type reader struct {
	yield  func(read bool) bool // pauses the reflector; false when it is to end
	ended  bool                 // yield must not be called any more
	ctx    context.Context      // of the present Read
	unbind func() bool          // nil before the first turn
}

// Steps begins to drive the informer step by step. It is the place of Run, so it returns an error that wraps [ErrRunning] while
// a Run or other Steps go on, and [ErrEnded] after them.
//
// The context of List and Watch has the values of ctx, and ends with it. When ctx has ended, Read reads nothing. Steps starts no
// goroutine, but the caller must call [Steps.Stop]. Steps panics if New has not made the informer.
func (in *Informer[K, T]) Steps(ctx context.Context) (*Steps[K, T], error) {
	if in.indexer == nil {
		panic("informer: Steps called on an Informer that New has not made")
	}
	if err := in.begin(); err != nil {
		return nil, fmt.Errorf("informer: take steps of %s: %w", in.cfg.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Steps[K, T]{in: in, cancel: cancel, due: newTimers(in)}
	in.reflector.reader = &s.reader
	next, end := iter.Pull(func(yield func(bool) bool) {
		s.reader.yield = yield
		in.reflector.run(ctx, func() {})
	})
	s.next, s.end = next, end
	return s, nil
}

// Read reads one thing from the source: a list as a whole, or an event of the watch. It returns true if something was read. It
// then waits for [Steps.Apply].
//
// Read blocks while the source does, so a watch blocks it until the next event: it is for a source that has something to
// say, or ctx bounds it. It returns false when ctx ends, which also ends the call of the source that is under way: the next
// Read watches on from there. It returns false when a list failed, or a watch has ended or failed, which Config.OnError is told
// as by Run. It does not sit out the backoff: the next Read is the next attempt. It also returns false, and asks the source
// nothing, while 256 things wait for Apply.
//
// A runtime.Goexit in the source ends the goroutine that calls Read, and nothing is read after that.
func (s *Steps[K, T]) Read(ctx context.Context) (read bool) {
	if ctx.Err() != nil || s.in.feed.full() {
		return false
	}
	s.reader.ctx = ctx
	if turn := s.in.reflector.interrupt.Load(); turn != nil {
		s.reader.bind(*turn) // the watch that was open before
	}
	defer s.reader.release()
	read, _ = s.next()
	return read
}

// Apply applies the first thing that waits to the cache, as a whole if it is a list, and lets it wait for the handlers. Handlers
// that were added join before that, or after it if it is the first list. It returns false if there was nothing to do.
//
// What Run does when a time has come, Apply does: the first one after the time begins a resync, or asks for a list because an
// object could not be applied. A resync takes a step for each 128 objects of the cache.
func (s *Steps[K, T]) Apply() (applied bool) {
	if isClosed(s.in.ended) {
		return false
	}
	defer s.due.set() // the times count from the step
	select {
	case <-s.due.again:
		s.due.relist()
	default:
	}
	select {
	case now := <-s.due.resync.C:
		s.in.resync(now)
		applied = true
	default:
	}
	select {
	case <-s.in.wake:
		applied = s.in.step(s.in.feed.takeOne(s.in.spare), s.started) || applied
	default:
	}
	return applied
}

// started ends the join of a handler.
func (s *Steps[K, T]) started(l *listener[K, T]) {
	l.syncIfTold()
	l.leave()
}

// Handlers returns the handlers that have joined and were not removed, in the order in which they were added.
func (s *Steps[K, T]) Handlers() []*Registration {
	listeners := s.in.heardBy()
	regs := make([]*Registration, len(listeners))
	for i, l := range listeners {
		regs[i] = l.reg
	}
	return regs
}

// Deliver makes the next call of a handler: OnAdd, OnUpdate or OnDelete, with the calls of Filter before it. What passes no
// Filter, and calls that the handler does not have, are left out. It returns false if nothing waits, a call of the
// handler is under way, or the handler has not joined or was removed.
//
// A call that panics is reported to Config.OnError, and counts as made. A runtime.Goexit in a call ends the goroutine that calls
// Deliver. Deliver panics if handler is nil or belongs to another informer.
func (s *Steps[K, T]) Deliver(handler *Registration) bool {
	if handler == nil {
		panic("informer: Deliver called with a nil handler")
	}
	l, ok := handler.listener.(*listener[K, T])
	if !ok || l.in != s.in {
		panic("informer: Deliver called with a handler of another informer")
	}
	if !s.in.joined(l) || !l.enter() {
		return false
	}
	defer l.leave()
	delivered := l.deliver()
	l.syncIfTold()
	return delivered
}

// Stop ends the steps as the end of Run does: what waits for a handler is forgotten, the call of the source that is under way
// ends, and the cache can still be read. After Stop, Read, Apply and Deliver return false. Stop may be called twice.
func (s *Steps[K, T]) Stop() {
	if isClosed(s.in.ended) {
		return
	}
	s.cancel()
	s.reader.ended = true
	s.end()
	s.due.stop()
	s.in.stopScans()
	for _, l := range s.in.heardBy() {
		l.dismiss()
	}
	s.in.end()
}

// pause ends a Read, and returns in the next one. A nil reader does nothing.
func (r *reader) pause(read bool) {
	if r != nil && !r.ended {
		r.ended = !r.yield(read)
	}
}

// bind has the end of the present Read call cancel, in the place of what it called before.
func (r *reader) bind(cancel context.CancelFunc) {
	r.release()
	r.unbind = context.AfterFunc(r.ctx, cancel)
}

// release has the end of the context of a Read, which may come after it, call nothing.
func (r *reader) release() {
	if r.unbind != nil {
		r.unbind()
	}
}
