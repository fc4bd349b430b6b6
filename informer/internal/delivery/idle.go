package delivery

import "slices"

// ask is a call of [Listener.Ask]. The answer is due when the calls have returned for all items up to last. If last is removed, because it
// was taken or because its change was undone, the item before it takes its place.
type ask[K comparable, T any] struct {
	done chan<- struct{} // closed by the listener, with its mu held
	last *item[K, T]     // in the backlog; nil if the answer is due when the current calls have returned
}

// Ask makes l close done when the calls for all that is pending now have returned. If l is dismissed first, done is never closed.
func (l *Listener[K, T]) Ask(done chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.asks = append(l.backlog.asks, ask[K, T]{done, l.backlog.last})
	if !l.busy && !l.owes && !l.dismissed { // without Run, the next Deliver may never come
		l.answerLocked()
	}
	l.signal()
}

// Withdraw ends an Ask: done is not closed later.
func (l *Listener[K, T]) Withdraw(done chan<- struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.backlog.asks = slices.DeleteFunc(l.backlog.asks, func(a ask[K, T]) bool { return a.done == done })
}

// answerLocked answers the asks that are due. The calls for each item that was taken have returned.
func (l *Listener[K, T]) answerLocked() {
	if len(l.backlog.asks) == 0 { // nearly always
		return
	}
	l.backlog.asks = slices.DeleteFunc(l.backlog.asks, func(a ask[K, T]) bool {
		if a.last == nil {
			close(a.done)
		}
		return a.last == nil
	})
}
