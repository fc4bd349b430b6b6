package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// ErrShutDown reports that the queue was shut down. [Queue.Take] returns it when nothing is left to dispatch, and [Queue.Drain] when a call
// of [Queue.ShutDown] released it before all work was done.
var ErrShutDown = errors.New("workqueue: the queue is shut down")

// ShutDown ends the intake: it drops all wake-ups and backoffs, and later additions have no effect. Keys in their quiet time
// become ready or dirty. Workers still get all ready and dirty keys; then Take and Get report the shutdown. Parked keys and
// counts of failures stay. ShutDown does not wait for workers, and it releases all calls of Drain. It may be called again.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	q.beginShutDownLocked()
	released := q.released
	q.released = nil
	q.mu.Unlock()
	announce(released)
	q.endDeadlines()
}

// ShutDownWithDrain is [Queue.Drain] without a time limit. Prefer Drain.
func (q *Queue[K]) ShutDownWithDrain() {
	// The background context does not end, and this method has no way to report a release by ShutDown.
	_ = q.Drain(context.Background())
}

// Drain ends the intake, as ShutDown does, and waits until every key that is ready, in process, or dirty is done. Workers must keep calling
// Take and Done in other goroutines. Drain then returns nil. If a later call of ShutDown releases it, it returns [ErrShutDown]. If ctx ends
// first, it returns an error that wraps the cause and says how much is left. If several of these have happened, nil takes precedence, then
// ErrShutDown. Drains may run concurrently, and none releases another.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	q.beginShutDownLocked()
	if q.released == nil {
		q.released = make(chan struct{})
	}
	released := q.released
	q.mu.Unlock()
	q.endDeadlines()
	q.mu.Lock()
	idle := q.waitIdleLocked()
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-released:
	case <-ctx.Done():
	}
	// Several may have happened, and select chooses any of them.
	q.mu.Lock()
	wasIdle, wasReleased, ready, inProcess := q.idle != idle, q.released != released, q.order.n, q.inProcess
	q.mu.Unlock()
	switch {
	case wasIdle:
		return nil
	case wasReleased:
		return ErrShutDown
	}
	return fmt.Errorf("workqueue: drain %s: %d keys ready, %d in process: %w", q.cfg.Name, ready, inProcess, context.Cause(ctx))
}

// WaitIdle waits until the queue is idle: until no key is ready, in process, or in its quiet time. Wake-ups and backoffs do not
// count; [Queue.Stats] counts them. If ctx ends first, WaitIdle returns its cause. If both have happened, it returns nil.
func (q *Queue[K]) WaitIdle(ctx context.Context) error {
	q.mu.Lock()
	idle := q.waitIdleLocked()
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	// Both may have happened, and select chooses either of them.
	q.mu.Lock()
	wasIdle := q.idle != idle
	q.mu.Unlock()
	if wasIdle {
		return nil
	}
	return context.Cause(ctx)
}

// ShuttingDown reports whether the queue has been shut down.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutdown
}

// beginShutDownLocked ends the intake and stops the timer. The caller calls endDeadlines next.
func (q *Queue[K]) beginShutDownLocked() {
	q.shutdown = true
	if q.timer != nil {
		q.timer.Stop()
		q.armedFor = 0
	}
}

// endDeadlines ends all deadlines after the shutdown.
func (q *Queue[K]) endDeadlines() {
	for q.endSome() {
		// The lock is free between two batches.
	}
}

// endSome ends a batch of deadlines, and reports whether there are more. Keys in their quiet time become ready or dirty, in the order in
// which their quiet times would have ended. Until the last quiet time has ended, the queue is neither idle nor over.
func (q *Queue[K]) endSome() (more bool) {
	var added []K
	var wake []*waiter
	q.mu.Lock()
	for i := 0; i < batch && q.schedule.n > 0; i++ {
		e := q.pool.at(q.nextToEndLocked().entry)
		if e.quietAt != 0 && e.quietAt == e.due() {
			w, changed := q.makeReadyLocked(e)
			if w != nil {
				wake = append(wake, w)
			}
			if changed && q.cfg.Hooks.Added != nil {
				added = append(added, e.key)
			}
		}
		e.wakeAt = 0
		if e.retryAt != 0 {
			e.retryAt = 0
		}
		q.rescheduleLocked(e) // a quiet key whose turn comes later stays
		q.restLocked(e)
	}
	if more = q.schedule.n > 0; !more {
		q.schedule.heap = nil
		wake = append(wake, q.waiters.clear()...) // to see whether they must stop
	}
	q.mu.Unlock()
	wakeAll(wake)
	q.tellAdded(added)
	return more
}

// nextToEndLocked returns a deadline to end: the earliest, while there are quiet keys, because their order counts.
func (q *Queue[K]) nextToEndLocked() wakeup {
	if q.quiet > 0 {
		return q.schedule.first()
	}
	return q.schedule.last()
}

// isOverLocked reports whether the queue is shut down and no key is ready or will be, except for dirty keys.
func (q *Queue[K]) isOverLocked() bool { return q.shutdown && q.order.n == 0 && q.quiet == 0 }

// endedLocked removes all workers from the list if the queue is over. The caller wakes them, to see whether they must stop.
func (q *Queue[K]) endedLocked() []*waiter {
	if !q.isOverLocked() {
		return nil
	}
	return q.waiters.clear()
}

// waitIdleLocked returns a channel that is closed when the queue is idle, or nil if it is idle now.
func (q *Queue[K]) waitIdleLocked() chan struct{} {
	if q.isIdleLocked() {
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	return q.idle
}

// idleLocked returns the channel to close if the queue is idle and a caller waits for that, or else nil.
func (q *Queue[K]) idleLocked() chan struct{} {
	if q.idle == nil || !q.isIdleLocked() {
		return nil
	}
	idle := q.idle
	q.idle = nil
	return idle
}

func (q *Queue[K]) isIdleLocked() bool { return q.order.n == 0 && q.inProcess == 0 && q.quiet == 0 }

// announce closes c, unless it is nil.
func announce(c chan struct{}) {
	if c != nil {
		close(c)
	}
}

// result says how a wait ended.
type result int

const (
	gotKey result = iota
	gotShutdown
	gotCanceled
)

// wait waits until a key may be dispatched, the queue is over, or done is closed. With dirtyToo, the queue is over only when no key is
// dirty. wait fills in item, unless item is nil.
func (q *Queue[K]) wait(done <-chan struct{}, item *Item[K], dirtyToo bool) (key K, r result) {
	q.mu.Lock()
	for {
		select {
		case <-done: // it may have been closed while this worker slept or waited for the lock
			other := q.waiterToWakeLocked() // instead of this one, if it was woken
			q.mu.Unlock()
			other.wake()
			return key, gotCanceled
		default:
		}
		if e := q.takeLocked(); e != nil {
			return q.dispatch(e, item), gotKey
		}
		if q.isOverLocked() && !(dirtyToo && q.dirty > 0) {
			q.mu.Unlock()
			return key, gotShutdown
		}
		w := q.waiters.add()
		q.mu.Unlock()

		canceled := false
		if done == nil {
			<-w.signal
		} else {
			select {
			case <-w.signal:
			case <-done:
				canceled = true
			}
		}

		q.mu.Lock()
		switch {
		case !canceled:
			q.waiters.restock(w)
		case w.listed:
			q.waiters.remove(w)
			q.waiters.restock(w)
		default:
			// The waiter was woken as well. The value may not have been sent yet, so the waiter is not reused.
		}
	}
}

// waiter is a worker that waits for a key. A wake-up is a hint to look again, not a key: a worker that is already awake may
// take the key first, which is cheaper than handing it over.
type waiter struct {
	signal     chan struct{} // one slot; gets one value after the waiter has left the list
	prev, next *waiter
	listed     bool
}

// wake tells a waiter that has left the list to look again. It does nothing for a nil waiter.
func (w *waiter) wake() {
	if w != nil {
		w.signal <- struct{}{} // never blocks: one value for each time that a wake-up removes the waiter from the list
	}
}

func wakeAll(ws []*waiter) {
	for _, w := range ws {
		w.wake()
	}
}

// waitlist is a list of waiters, the longest waiting first, and a stock of waiters to reuse.
type waitlist struct {
	first, last *waiter
	stock       *waiter // linked by next
}

// add puts a waiter at the end of the list.
func (l *waitlist) add() *waiter {
	w := l.stock
	if w != nil {
		l.stock = w.next
	} else {
		w = &waiter{signal: make(chan struct{}, 1)}
	}
	w.prev, w.next, w.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	return w
}

// remove removes a listed waiter.
func (l *waitlist) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
}

// clear removes all waiters and returns them.
func (l *waitlist) clear() (ws []*waiter) {
	for w := l.first; w != nil; w = l.first {
		l.remove(w)
		ws = append(ws, w)
	}
	return ws
}

// restock keeps a waiter that is not listed and whose signal is empty, for reuse.
func (l *waitlist) restock(w *waiter) {
	w.next = l.stock
	l.stock = w
}
