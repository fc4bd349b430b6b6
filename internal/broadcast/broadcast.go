// Package broadcast wakes every goroutine that waits for a change.
//
//	for {
//		changed := s.changed.Next() // before the check, so that no change is missed between the two
//		if s.done() {
//			return nil
//		}
//		select {
//		case <-changed:
//		case <-ctx.Done():
//			return context.Cause(ctx)
//		}
//	}
package broadcast

import "sync"

// Signal wakes all waiters at once. The zero value is ready for use. Several goroutines may call its methods concurrently, also while they
// hold a lock.
type Signal struct {
	mu sync.Mutex
	// mu guards the following.
	woken chan struct{} // closed by the next Wake; nil without a caller of Next
}

// Next returns a channel that the next Wake closes.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken == nil {
		s.woken = make(chan struct{})
	}
	return s.woken
}

// Wake closes the channels that Next has returned. It allocates nothing.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken != nil {
		close(s.woken)
		s.woken = nil
	}
}

// IsClosed reports whether ch, on which nobody sends, is closed.
func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
