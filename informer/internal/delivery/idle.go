package delivery

import "slices"

// ask is a call of [Listener.Ask].
type ask struct {
	done chan<- struct{} // closed by the listener, with its mu held
	till uint64          // the answer is due when this many items of the backlog are done
}

// Ask makes l close done when the calls for all that is pending now have returned. If l is dismissed first, done is never closed.
func (l *Listener[K, T]) Ask(done chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = append(l.asks, ask{done, l.taken + uint64(l.backlog.n)})
	if !l.busy && !l.owes && !l.dismissed { // without Run, the next Deliver may never come
		l.answerLocked()
	}
	l.signal()
}

// Withdraw ends an Ask: done is not closed later.
func (l *Listener[K, T]) Withdraw(done chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asks = slices.DeleteFunc(l.asks, func(a ask) bool { return a.done == done })
}

// answerLocked answers the asks that are due. The calls for each item that was taken have returned. Merging may remove items, so every ask
// is due if the backlog is empty.
func (l *Listener[K, T]) answerLocked() {
	if len(l.asks) == 0 { // nearly always
		return
	}
	l.asks = slices.DeleteFunc(l.asks, func(a ask) bool {
		due := l.taken >= a.till || l.backlog.n == 0
		if due {
			close(a.done)
		}
		return due
	})
}
