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

// Next is [Queue.Get] that ends with a context. It returns [ErrShutDown] when the queue is shut down and nothing is
// ready any more, and the cause of ctx when ctx ends; an ended ctx takes no key.
func (q *Queue[K]) Next(ctx context.Context) (K, error) {
	var zero K
	if ctx.Err() != nil {
		return zero, context.Cause(ctx)
	}
	switch key, r := q.next(ctx.Done()); r {
	case gotKey:
		return key, nil
	case gotShutdown:
		return zero, ErrShutDown
	default:
		return zero, context.Cause(ctx)
	}
}

// next waits until a key is ready, the queue is shut down or done is closed.
func (q *Queue[K]) next(done <-chan struct{}) (key K, r result) {
	q.mu.Lock()
	for {
		if key, ok := q.takeLocked(); ok {
			q.mu.Unlock()
			return key, gotKey
		}
		if q.shutdown {
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
		if !cancelled {
			q.waiters.restock(w)
			continue
		}
		var other *waiter
		if w.listed {
			q.waiters.remove(w)
			q.waiters.restock(w)
		} else {
			// The wake-up came as well, perhaps for a key that nobody else would now look for: pass it on. Its
			// value may still be on its way, so the waiter is not used again.
			other = q.waiterToWakeLocked()
		}
		q.mu.Unlock()
		other.wake()
		return key, gotCancelled
	}
}

// waiterToWakeLocked takes the longest waiting worker off the list if a key is ready. The caller wakes it after it has
// given up the lock. Whenever a key gets in line, and whenever a worker gives up a wake-up, one waiter leaves the list:
// so no key is ready while all workers sleep.
func (q *Queue[K]) waiterToWakeLocked() *waiter {
	w := q.waiters.first
	if w == nil || q.ready.len() == 0 {
		return nil
	}
	q.waiters.remove(w)
	return w
}
