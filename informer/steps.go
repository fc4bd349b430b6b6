package informer

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"

	"github.com/setpoint-go/setpoint/internal/broadcast"
)

// Steps drives an informer in the goroutine of the caller, instead of [Informer.Run]. It is for tests and simulations that decide the order
// of events. Run is a loop over the same steps, with one goroutine for the source, one for the cache, and one for each handler without
// Inline. [Informer.Steps] returns a Steps.
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
// The guarantees of the package hold for every order of the steps. A step does not wait for time to pass, unless the source or a
// callback does.
//
// Read, Apply, and the Deliver of one handler may run concurrently with each other, but each in one goroutine at a time. Call
// Stop when none of them runs. The methods of the informer may be called at any time.
type Steps interface {
	// Read reads one thing from the source: a whole list, or one event of the watch. It reports whether it read something, which is then
	// pending for Apply. After [Informer.Drop], what it reads is the end of the slot.
	//
	// Read blocks while the source does. If the source may have no event, limit Read by ctx. Read returns false in these cases:
	//
	//   - ctx has ended. That also ends the call of the source in flight; the next Read resumes the watch there.
	//   - A list failed, or a watch ended or failed, which is reported to Config.OnError as by Run. Read does not wait for the backoff:
	//     the next Read is the next attempt.
	//   - 256 lists and events are pending for Apply. In that case Read does not call the source.
	//
	// A runtime.Goexit in the source ends the goroutine that calls Read, and nothing is read after that.
	Read(ctx context.Context) (read bool)

	// Apply applies the first pending list or event to the cache, which makes its changes pending for the handlers, and calls those with
	// Inline for them. New handlers join before that, or after it if it is the first list. It returns false if there was nothing to do.
	//
	// If the time for a resync has come, or for a new list because an object could not be applied, the next Apply begins that. A resync
	// takes one Apply for each 128 objects of the cache. So do the first calls of a handler with Inline.
	Apply() (applied bool)

	// Handlers returns the handlers that have joined and were not removed, in the order in which they were added.
	Handlers() []Registration

	// Deliver makes the next call of a handler: OnAdd, OnUpdate, OnResync, OnDelete, or OnDrop, after the necessary calls of Filter. It skips
	// changes that do not pass the Filter, and functions that the handler does not have. It returns false if no call is pending, or a
	// call of the handler is in flight. It also returns false if the handler has not joined or was removed, or has Inline.
	//
	// A call that panics is reported to Config.OnError, and is not repeated. A runtime.Goexit in a call ends the goroutine that calls
	// Deliver. Deliver panics if handler is nil or belongs to another informer.
	Deliver(handler Registration) bool

	// Stop ends the informer, as the end of Run does: pending changes are dropped, the open watch ends, and the cache can still be read.
	// After Stop, Read, Apply, and Deliver return false. Stop may be called twice.
	Stop()
}

// steps implements [Steps].
type steps[K comparable, T any] struct {
	in     *Informer[K, T]
	reader reader
	next   func() (read, ok bool)
	end    func() // of next
	cancel context.CancelFunc
	due    *timers[K, T]
}

// reader reads from a source step by step. The reflector runs as a coroutine: Read resumes it, and it pauses after it has read one
// list or event.
type reader struct {
	yield  func(read bool) bool // pauses the reflector; returns false if it has to end
	ended  bool                 // yield must not be called anymore
	all    context.Context      // of Steps
	ctx    context.Context      // of the present Read
	unbind func() bool          // nil if there is nothing to undo
}

// Steps starts driving the informer step by step, instead of Run. It returns an error that wraps [ErrRunning] while a Run or another Steps
// is in progress, and [ErrEnded] after that.
//
// The context of List and Watch has the values of ctx, and ends with it. After ctx has ended, Read reads nothing. Steps starts no
// goroutine, but the caller must call the Stop of Steps. Steps panics if New has not made the informer.
func (in *Informer[K, T]) Steps(ctx context.Context) (Steps, error) {
	if in.indexer == nil {
		panic("informer: Steps called on an Informer that New has not made")
	}
	if err := in.begin(); err != nil {
		return nil, fmt.Errorf("informer: take steps of %s: %w", in.cfg.Name, err)
	}
	s := &steps[K, T]{in: in, due: &timers[K, T]{in: in}, reader: reader{all: ctx}}
	ctx, s.cancel = context.WithCancel(ctx)
	in.reflector.reader = &s.reader
	next, end := iter.Pull(func(yield func(bool) bool) {
		growStack()
		s.reader.yield = yield
		in.reflector.run(ctx, func() {})
	})
	s.next, s.end = next, end
	return s, nil
}

// growStack grows the stack of a new coroutine for a list or a watch. If the stack grew during these, each of their frames would be copied,
// which takes a tenth of the time of a simulation.
//
//go:noinline
func growStack() {
	var room [5 << 10]byte
	runtime.KeepAlive(&room)
}

// Read implements [Steps].
func (s *steps[K, T]) Read(ctx context.Context) (read bool) {
	if ctx.Err() != nil || s.in.buffer.len() == maxBatch {
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

// Apply implements [Steps].
func (s *steps[K, T]) Apply() (applied bool) {
	if broadcast.IsClosed(s.in.ended) {
		return false
	}
	defer s.due.set() // the times count from the step
	select {
	case <-s.due.again:
		s.due.relist()
	default:
	}
	select {
	case now := <-s.due.tick:
		s.in.resync(now)
		applied = true
	default:
	}
	select {
	case <-s.in.wake:
		applied = s.in.step(s.in.buffer.takeOne(s.in.spare), (*listener[K, T]).release) || applied
	default:
	}
	return applied
}

// Handlers implements [Steps].
func (s *steps[K, T]) Handlers() []Registration {
	listeners := s.in.joined()
	regs := make([]Registration, len(listeners))
	for i, l := range listeners {
		regs[i] = l
	}
	return regs
}

// Deliver implements [Steps].
func (s *steps[K, T]) Deliver(handler Registration) bool {
	if handler == nil {
		panic("informer: Deliver called with a nil handler")
	}
	l, ok := handler.(*listener[K, T])
	if !ok || l.in != s.in {
		panic("informer: Deliver called with a handler of another informer")
	}
	return slices.Contains(s.in.joined(), l) && l.deliver()
}

// Stop implements [Steps].
func (s *steps[K, T]) Stop() {
	if broadcast.IsClosed(s.in.ended) {
		return
	}
	s.cancel()
	s.reader.ended = true
	s.end()
	s.due.stop()
	s.in.stopAll()
	s.in.end()
}

// pause ends a Read, and returns in the next one. A nil reader does nothing.
func (r *reader) pause(read bool) {
	if r != nil && !r.ended {
		r.ended = !r.yield(read)
	}
}

// bind makes the end of the current Read call cancel, instead of the function of an earlier bind. The end of the context of Steps ends
// everything without that.
func (r *reader) bind(cancel context.CancelFunc) {
	r.release()
	if r.ctx.Done() == r.all.Done() {
		return
	}
	r.unbind = context.AfterFunc(r.ctx, cancel)
}

// release undoes bind: the context of a Read may end after that Read.
func (r *reader) release() {
	if r.unbind != nil {
		r.unbind()
		r.unbind = nil
	}
}
