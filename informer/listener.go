package informer

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"runtime/debug"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/cache"
	"github.com/setpoint-go/setpoint/wait"
)

// listener calls one handler: what it is told waits in a backlog, which a goroutine of its own works off.
//
// Objects that were there when it joined wait before it, in pieces that all handlers who join together share. What changes
// meanwhile waits in the backlog, and is merged with the object when that has its turn: what it is then is told as
// initial, and nothing if it is gone. One that has come anew since stays in the backlog.
type listener[K comparable, T any] struct {
	name    string
	handler Handler[K, T]
	onError func(error)
	seed    maphash.Seed // of the hashes of the backlog

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
	initial   [][]object[K, T] // objects that were there when it joined, which are told before what is in backlog
	told      int              // how much of the first piece of initial has had its turn
	joined    bool             // initial has all of them, or had
	current   *item[K, T]      // the calls for it have begun; it is read without mu by run
	hasSynced bool             // synced is closed
	dismissed bool
}

func newListener[K comparable, T any](name string, h Handler[K, T], cfg Config, seed maphash.Seed) *listener[K, T] {
	return &listener[K, T]{
		name: name, handler: h, onError: cfg.OnError, seed: seed, period: max(cmp.Or(h.ResyncPeriod, cfg.ResyncPeriod), 0),
		synced: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
		backlog: backlog[K, T]{every: h.EveryEvent},
	}
}

// tellInitial adds objects that the handler does not know, each of which is told once. They are not changed any more. It is
// called before join.
func (l *listener[K, T]) tellInitial(piece []object[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed || len(piece) == 0 {
		return
	}
	l.initial = append(l.initial, piece)
	l.signal()
}

// join notes that the listener has been told of every initial object.
func (l *listener[K, T]) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined = true
	l.checkSyncedLocked()
	l.signal()
}

// tell adds changes to what waits.
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
	l.checkSyncedLocked()
	l.signal()
}

// run calls the handler until ctx ends or the listener is dismissed. A handler that ends the goroutine is dismissed, too: it
// would wait for nothing, and what waits for it would grow.
func (l *listener[K, T]) run(ctx context.Context) {
	defer close(l.done)
	returned := false
	defer func() {
		if !returned {
			l.dismiss()
			l.onError(fmt.Errorf("informer: call %s of %s: it has called runtime.Goexit, and is called no more", l.calling, l.name))
		}
	}()
	for ctx.Err() == nil && !isClosed(l.gone) {
		for l.work(ctx) {
		}
		select {
		case <-l.wake:
		case <-l.gone:
		case <-ctx.Done():
		}
	}
	returned = true
}

// work makes calls until nothing waits any more, or ctx ends. It returns true when one has panicked: there may be more.
func (l *listener[K, T]) work(ctx context.Context) (panicked bool) {
	defer func() {
		if v := recover(); v != nil {
			l.report(v)
			panicked = true
		}
	}()
	for l.turn(ctx) {
	}
	return false
}

// turn makes the call that is owed, and those of the next item, unless ctx has ended. It returns false when there was no
// next item.
func (l *listener[K, T]) turn(ctx context.Context) bool {
	if l.owes {
		l.owes, l.calling = false, "OnAdd"
		l.handler.OnAdd(l.current.now.object, l.current.initial)
	}
	it := l.next(ctx.Err() != nil)
	if it == nil {
		return false
	}
	l.deliver(it)
	return true
}

// dismiss forgets what waits and lets nothing more be taken.
func (l *listener[K, T]) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dismissed {
		l.dismissed = true
		l.backlog.clear()
		l.initial, l.told = nil, 0
		close(l.gone)
	}
}

// next notes that the calls for the current item have returned, however they did, and unless it is to stop, takes another
// one.
func (l *listener[K, T]) next(stop bool) *item[K, T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != nil {
		l.backlog.release(l.current)
		l.current = nil
	}
	if !stop {
		l.current = l.takeLocked()
	}
	l.checkSyncedLocked()
	return l.current
}

// takeLocked returns what has waited longest, or nil.
func (l *listener[K, T]) takeLocked() *item[K, T] {
	switch o, waits := l.firstLocked(); {
	case o != nil:
		it := l.backlog.alloc()
		it.key, it.now, it.initial = o.key, state[T]{o.obj, true}, true
		if waits != nil {
			it.now = waits.now
			l.backlog.remove(waits)
			l.backlog.release(waits)
		}
		l.passLocked()
		return it
	case l.joined:
		return l.backlog.take()
	default:
		return nil // more initial objects come
	}
}

// firstLocked returns the initial object whose turn it is, or nil, and what waits to be merged with it. It passes by those
// that have gone: nobody is told of them.
func (l *listener[K, T]) firstLocked() (o *object[K, T], waits *item[K, T]) {
	for len(l.initial) > 0 {
		o, waits = &l.initial[0][l.told], nil
		if l.backlog.n > 0 && !l.backlog.every {
			waits = l.backlog.find(maphash.Comparable(l.seed, o.key), o.key)
		}
		if waits == nil || !waits.gone {
			return o, waits
		}
		l.backlog.forgetKnown(waits)
		l.passLocked()
	}
	return nil, nil
}

// passLocked goes on to the next initial object.
func (l *listener[K, T]) passLocked() {
	if l.told++; l.told == len(l.initial[0]) {
		l.initial[0] = nil
		l.initial, l.told = l.initial[1:], 0
	}
	if len(l.initial) == 0 {
		l.initial = nil
	}
}

func (l *listener[K, T]) checkSyncedLocked() {
	if l.hasSynced || !l.joined || l.dismissed || l.current != nil && l.current.initial {
		return
	}
	if o, _ := l.firstLocked(); o == nil {
		l.hasSynced = true
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
// to turn: so it is made even if OnDelete panics.
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
		tombstone := cache.Tombstone[K, T]{Key: it.key, Object: it.last, FinalStateUnknown: it.missed}
		if !it.gone { // it left the filter
			tombstone.Object = it.known.object
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
