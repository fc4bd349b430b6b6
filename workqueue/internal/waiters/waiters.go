package waiters

// Waiter is a worker that waits for a key.
type Waiter struct {
	Signal chan struct{} // gets one value after the waiter was removed by Next or Clear

	prev, next *Waiter
	listed     bool
}

// Listed reports whether w is in the list. If it is not, Next or Clear has removed it.
func (w *Waiter) Listed() bool { return w.listed }

// Wake tells a waiter that Next or Clear returned to look again.
func (w *Waiter) Wake() {
	w.Signal <- struct{}{} // never blocks: the channel has one slot, and there is one value for each removal
}

// List is a list of waiters, the longest waiting first, and a stock of waiters to reuse. The zero value is empty.
type List struct {
	first, last *Waiter
	stock       *Waiter // linked by next
}

// Empty reports whether no worker waits.
func (l *List) Empty() bool { return l.first == nil }

// Add puts a waiter at the end of the list.
func (l *List) Add() *Waiter {
	w := l.stock
	if w != nil {
		l.stock = w.next
	} else {
		w = &Waiter{Signal: make(chan struct{}, 1)}
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

// Remove removes a listed waiter, which gets no signal.
func (l *List) Remove(w *Waiter) {
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

// Next removes the longest waiting waiter, and returns it for the caller to wake. It returns nil if there is none.
func (l *List) Next() *Waiter {
	w := l.first
	if w != nil {
		l.Remove(w)
	}
	return w
}

// Clear removes all waiters, and returns them for the caller to wake.
func (l *List) Clear() (ws []*Waiter) {
	for w := l.Next(); w != nil; w = l.Next() {
		ws = append(ws, w)
	}
	return ws
}

// Reuse keeps a waiter for the next Add. It must not be listed, and must have no signal that was not received, not even one to come.
func (l *List) Reuse(w *Waiter) {
	w.next = l.stock
	l.stock = w
}
