package leaderelect

import "sync"

// signal wakes everybody who waits. The zero value is ready.
type signal struct {
	mu sync.Mutex
	// mu guards the following.
	next chan struct{} // closed by the next fire; nil when nobody has waited since the last
}

// wait returns a channel that is closed by the next fire.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// fire wakes whoever waits.
func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
