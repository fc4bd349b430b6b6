package informer

import (
	"context"
	"fmt"
	"iter"
	"sync"

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

	mu sync.Mutex
	// mu guards the following.
	backlog   backlog[K, T]
	initial   int // initial objects whose OnAdd has not returned
	joined    bool
	dismissed bool
}

func newListener[K comparable, T any](name string, h Handler[K, T], onError func(error)) *listener[K, T] {
	return &listener[K, T]{
		name: name, handler: h, onError: onError,
		synced: make(chan struct{}), wake: make(chan struct{}, 1), gone: make(chan struct{}), done: make(chan struct{}),
	}
}

// join tells the listener of every object that is present. It is called once, before any tell and before run.
func (l *listener[K, T]) join(present iter.Seq2[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined = true
	if l.dismissed {
		return
	}
	for key, obj := range present {
		l.backlog.add(change[K, T]{key: key, new: state[T]{obj, true}}, true)
		l.initial++
	}
	l.checkSyncedLocked()
	l.signal()
}

// tell adds changes to what waits.
func (l *listener[K, T]) tell(changes []change[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dismissed {
		return
	}
	for _, c := range changes {
		if l.backlog.add(c, false) {
			l.initial--
		}
	}
	l.checkSyncedLocked()
	l.signal()
}

// run calls the handler until ctx ends or the listener is dismissed.
func (l *listener[K, T]) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		if it := l.take(); it != nil {
			l.deliver(ctx, it)
			l.delivered(it)
			continue
		}
		select {
		case <-l.wake:
		case <-l.gone:
			return
		case <-ctx.Done():
		}
	}
}

// dismiss forgets what waits and lets nothing more be taken.
func (l *listener[K, T]) dismiss() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dismissed {
		l.dismissed = true
		l.backlog.clear()
		close(l.gone)
	}
}

func (l *listener[K, T]) take() *item[K, T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.backlog.take()
}

// delivered notes that the calls for it have returned, however they did.
func (l *listener[K, T]) delivered(it *item[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if it.initial {
		l.initial--
		l.checkSyncedLocked()
	}
}

func (l *listener[K, T]) checkSyncedLocked() {
	if l.joined && l.initial == 0 && !isClosed(l.synced) && !l.dismissed {
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

// deliver makes the calls that take the handler from what it knows to what is true.
func (l *listener[K, T]) deliver(ctx context.Context, it *item[K, T]) {
	h := l.handler
	had, has := l.passes(ctx, it.known), l.passes(ctx, it.now)
	if had && has && !it.gone {
		if h.OnUpdate != nil {
			l.call(ctx, "OnUpdate", func() { h.OnUpdate(it.known.object, it.now.object) })
		}
		return
	}
	if had && h.OnDelete != nil {
		tombstone := it.tombstone
		if !it.gone { // it left the filter
			tombstone = cache.Tombstone[K, T]{Key: it.key, Object: it.known.object}
		}
		l.call(ctx, "OnDelete", func() { h.OnDelete(tombstone) })
	}
	if has && h.OnAdd != nil {
		l.call(ctx, "OnAdd", func() { h.OnAdd(it.now.object, it.initial) })
	}
}

// passes reports whether the handler is to know of s.
func (l *listener[K, T]) passes(ctx context.Context, s state[T]) bool {
	if !s.present || l.handler.Filter == nil {
		return s.present
	}
	pass := false
	l.call(ctx, "Filter", func() { pass = l.handler.Filter(s.object) })
	return pass
}

// call runs f, a function of the handler, and reports its panic.
func (l *listener[K, T]) call(ctx context.Context, what string, f func()) {
	err := wait.Call(ctx, func(context.Context) error {
		f()
		return nil
	})
	if err != nil {
		l.onError(fmt.Errorf("informer: call %s of %s: %w", what, l.name, err))
	}
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
