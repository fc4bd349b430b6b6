package informer

import (
	"context"
	"slices"
)

// ask is a call of [Registration.WaitIdle]. It takes two steps, so that it misses no object of the cache:
//
//  1. Run, or Steps.Apply, passes it on to the listener at the end of a step. By then every handler that has joined has been
//     told of what is in the cache, so what the caller has seen there is in the backlog, or was before.
//  2. The listener answers it when the calls for all of that have returned.
type ask[K comparable, T any] struct {
	l    *listener[K, T]
	done chan struct{} // closed by the listener, with its mu held
	till uint64        // guarded by mu of l: the answer is due when the handler is done with so many items of the backlog
}

// waitIdle waits until l is done with everything that is in the cache now.
func (in *Informer[K, T]) waitIdle(ctx context.Context, l *listener[K, T]) error {
	select {
	case <-l.synced: // so l has joined
	case <-l.gone:
		return ErrEnded
	case <-in.ended: // l never joined
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a := &ask[K, T]{l: l, done: make(chan struct{})}
	in.mu.Lock()
	in.asks = append(in.asks, a)
	in.mu.Unlock()
	defer in.dropAsk(a)
	in.poke()
	var err error
	select {
	case <-a.done:
	case <-l.gone:
		err = ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if isClosed(a.done) {
		return nil
	}
	return err
}

// passAsks passes the calls of WaitIdle on to their listeners, all of which have joined, or were removed.
func (in *Informer[K, T]) passAsks() {
	in.mu.Lock()
	asks := in.asks
	in.asks = nil
	in.mu.Unlock()
	for _, a := range asks {
		a.l.ask(a)
	}
}

// dropAsk lets go of a, unless it was answered.
func (in *Informer[K, T]) dropAsk(a *ask[K, T]) {
	without := func(asks []*ask[K, T]) []*ask[K, T] {
		return slices.DeleteFunc(asks, func(other *ask[K, T]) bool { return other == a })
	}
	in.mu.Lock()
	in.asks = without(in.asks)
	in.mu.Unlock()
	a.l.mu.Lock()
	defer a.l.mu.Unlock()
	a.l.asks = without(a.l.asks)
}

// ask makes the listener answer a when the handler is done with the items that are in the backlog now.
func (l *listener[K, T]) ask(a *ask[K, T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.till = l.taken + uint64(l.backlog.n)
	l.asks = append(l.asks, a)
	if !l.busy && !l.owes && !l.dismissed { // without Run, the next Deliver may never come
		l.answerLocked()
	}
	l.signal()
}

// answerLocked answers the calls of WaitIdle that are due. The handler is done with every item that was taken. Where items
// are merged, fewer may come than waited, so an empty backlog is an answer too.
func (l *listener[K, T]) answerLocked() {
	if len(l.asks) == 0 { // nearly always
		return
	}
	l.asks = slices.DeleteFunc(l.asks, func(a *ask[K, T]) bool {
		due := l.taken >= a.till || l.backlog.n == 0
		if due {
			close(a.done)
		}
		return due
	})
}
