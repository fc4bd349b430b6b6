package informer

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// listener calls one handler: what it is told waits in a backlog, which a goroutine of its own works off.
type listener[K comparable, T any] struct {
	name    string
	handler Handler[K, T]
	onError func(error)

	synced chan struct{} // closed, with mu held, when OnAdd has returned for every initial object
	wake   chan struct{} // holds a token when the backlog may have something; sent by whoever adds, taken by run
	gone   chan struct{} // closed, with mu held, by dismiss
	done   chan struct{} // closed by run when it returns

	started bool // run was called, or is about to be; guarded by mu of the informer
	removed bool // guarded by mu of the informer

	period    time.Duration // of resyncs; 0 is never
	due       time.Time     // when the next resync is; used by Run's goroutine only
	resyncing bool          // used by Run's goroutine only

	owes    bool   // OnAdd is to be called for current; used by run only
	calling string // the function that is called; used by run only

	mu sync.Mutex
	// mu guards the following.
	backlog   backlog[K, T]
	held      backlog[K, T] // what is to wait behind the initial objects; empty when joined
	current   *item[K, T]   // the calls for it have begun; it is read without mu by run
	initial   int           // initial objects whose OnAdd has not returned
	joined    bool          // initial counts all of them
	dismissed bool
}

func newListener[K comparable, T any](name string, h Handler[K, T], cfg Config) *listener[K, T] {
	return &listener[K, T]{
		name: name, handler: h, onError: cfg.OnError, period: max(cmp.Or(h.ResyncPeriod, cfg.ResyncPeriod), 0),
		synced: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
		backlog: newBacklog[K, T](h.EveryEvent), held: newBacklog[K, T](h.EveryEvent),
	}
}

// tellInitial adds objects to what waits that the handler does not know. It is called before join.
func (l *listener[K, T]) tellInitial(changes []change[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return
	}
	l.initial += len(changes)
	for i := range changes {
		l.backlog.add(&changes[i], true)
	}
	l.signal()
}

// join notes that the listener has been told of every initial object, and adds what was held to what waits.
func (l *listener[K, T]) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined = true
	for it := range l.held.all() {
		if it.gone {
			l.addLocked(&change[K, T]{key: it.key, old: it.known, tombstone: it.tombstone})
			it.known = state[T]{}
		}
		if it.now.present {
			l.addLocked(&change[K, T]{key: it.key, old: it.known, new: it.now})
		}
	}
	l.held.clear()
	l.checkSyncedLocked()
	l.signal()
}

// tell adds changes to what waits, or holds them until join is called: initial objects come first.
func (l *listener[K, T]) tell(changes []change[K, T]) {
	if len(changes) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return
	}
	if !l.joined {
		for i := range changes {
			l.held.add(&changes[i], false)
		}
		return
	}
	for i := range changes {
		l.addLocked(&changes[i])
	}
	l.checkSyncedLocked()
	l.signal()
}

func (l *listener[K, T]) addLocked(c *change[K, T]) {
	if l.backlog.add(c, false) {
		l.initial--
	}
}

// run calls the handler until ctx ends or the listener is dismissed.
func (l *listener[K, T]) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		for l.work(ctx) {
		}
		select {
		case <-l.wake:
		case <-l.gone:
			return
		case <-ctx.Done():
		}
	}
}

// work makes calls until nothing waits any more, or ctx ends. It returns true when one has panicked: there may be more.
func (l *listener[K, T]) work(ctx context.Context) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			l.report(v)
			panicked = true
		}
	}()
	for {
		if l.owes {
			l.owes, l.calling = false, "OnAdd"
			l.handler.OnAdd(l.current.now.object, l.current.initial)
		}
		it := l.next(ctx.Err() != nil)
		if it == nil {
			return false
		}
		l.deliver(it)
	}
}

// dismiss forgets what waits and lets nothing more be taken.
func (l *listener[K, T]) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dismissed {
		l.dismissed = true
		l.backlog.clear()
		l.held.clear()
		close(l.gone)
	}
}

// next notes that the calls for the current item have returned, however they did, and unless it is to stop, takes another
// one.
func (l *listener[K, T]) next(stop bool) *item[K, T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		if l.current.initial {
			l.initial--
			l.checkSyncedLocked()
		}
		l.backlog.release(l.current)
		l.current = nil
	}
	if !stop {
		l.current = l.backlog.take()
	}
	return l.current
}

func (l *listener[K, T]) checkSyncedLocked() {
	if l.joined && l.initial == 0 && !l.dismissed && !isClosed(l.synced) {
		close(l.synced)
	}
}

// signal makes run look. It never blocks.
func (l *listener[K, T]) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // a token is there
	}
}

// deliver makes the calls that take the handler from what it knows to what is true, but that of OnAdd, which it leaves
// to work: so it is made even if OnDelete panics.
func (l *listener[K, T]) deliver(it *item[K, T]) {
	h := &l.handler
	had, has := l.passes(&it.known), l.passes(&it.now)
	if had && has && !it.gone {
		if h.OnUpdate != nil {
			l.calling = "OnUpdate"
			h.OnUpdate(it.known.object, it.now.object)
		}
		return
	}
	l.owes = has && h.OnAdd != nil
	if had && h.OnDelete != nil {
		tombstone := it.tombstone
		if !it.gone { // it left the filter
			tombstone = cache.Tombstone[K, T]{Key: it.key, Object: it.known.object}
		}
		l.calling = "OnDelete"
		h.OnDelete(tombstone)
	}
}

// passes reports whether the handler is to know of s.
func (l *listener[K, T]) passes(s *state[T]) bool {
	if !s.present || l.handler.Filter == nil {
		return s.present
	}
	return l.filter(s.object)
}

func (l *listener[K, T]) filter(obj T) (pass bool) {
	defer func() {
		if v := recover(); v != nil {
			l.calling = "Filter"
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
