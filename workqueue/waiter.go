package workqueue

import "context"

// waiter is a worker that waits for a key. A wake-up is a hint to look again, not a key: a worker that is awake anyway
// may take the key first, which costs less than handing it over.
type waiter struct {
	signal     chan struct{} // one slot; gets one value after the waiter has left the list
	prev, next *waiter
	listed     bool
}

// wake tells a waiter that has left the list to look again. A nil waiter is nobody.
func (w *waiter) wake() {
	if w != nil {
		w.signal <- struct{}{} // never blocks: one value for each time that the waiter leaves the list by a wake-up
	}
}

func wakeAll(ws []*waiter) {
	for _, w := range ws {
		w.wake()
	}
}

// waitlist is a list of waiters, the longest waiting first, and a stock of waiters to use again.
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

// remove takes a listed waiter off the list.
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

// clear takes all waiters off the list.
func (l *waitlist) clear() (ws []*waiter) {
	for w := l.first; w != nil; w = l.first {
		l.remove(w)
		ws = append(ws, w)
	}
	return ws
}

// restock keeps a waiter that is off the list, and whose signal is empty, for the next one who waits.
func (l *waitlist) restock(w *waiter) {
	w.next = l.stock
	l.stock = w
}

// result says how a wait ended.
type result int

const (
	gotKey result = iota
	gotShutdown
	gotCancelled
)

// nextUntil is Next, which notes the item if one is asked for.
func (q *Queue[K]) nextUntil(ctx context.Context, item *Item[K]) (K, error) {
	var zero K
	if ctx.Err() != nil {
		return zero, context.Cause(ctx)
	}
	switch key, r := q.next(ctx.Done(), item, true); r {
	case gotKey:
		return key, nil
	case gotShutdown:
		return zero, ErrShutDown
	default:
		return zero, context.Cause(ctx)
	}
}

// next waits until a key may be handed out, the queue is shut down and nothing is ready, or done is closed. With dirtyToo it
// also waits for the Done of what is dirty. It notes the item if one is asked for.
func (q *Queue[K]) next(done <-chan struct{}, item *Item[K], dirtyToo bool) (key K, r result) {
	q.mu.Lock()
	for {
		select {
		case <-done: // it may have ended while this worker slept, or waited for the lock
			other := q.waiterToWakeLocked() // in place of this one, if it was woken
			q.mu.Unlock()
			other.wake()
			return key, gotCancelled
		default:
		}
		if e := q.takeLocked(); e != nil {
			if item != nil {
				q.noteLocked(item, e)
			}
			return q.handOut(e), gotKey
		}
		if q.shutdown && q.order.n == 0 && !(dirtyToo && q.dirty > 0) {
			q.mu.Unlock()
			return key, gotShutdown
		}
		w := q.waiters.add()
		q.mu.Unlock()

		cancelled := false
		if done == nil {
			<-w.signal
		} else {
			select {
			case <-w.signal:
			case <-done:
				cancelled = true
			}
		}

		q.mu.Lock()
		switch {
		case !cancelled:
			q.waiters.restock(w)
		case w.listed:
			q.waiters.remove(w)
			q.waiters.restock(w)
		default:
			// The wake-up came as well. Its value may still be on its way, so the waiter is not used again.
		}
	}
}

// waiterToWakeLocked takes the longest waiting worker off the list if a key may be handed out. The caller wakes it after it
// has given up the lock. Whenever a key gets in line, a group gets below its limit, or a worker gives up a wake-up, one
// waiter leaves the list: so nothing may be handed out while all workers sleep.
func (q *Queue[K]) waiterToWakeLocked() *waiter {
	w := q.waiters.first
	if w == nil || !q.order.available() {
		return nil
	}
	q.waiters.remove(w)
	return w
}
