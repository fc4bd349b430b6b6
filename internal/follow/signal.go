package follow

import "sync"

// Signal wakes all waiters at once. The zero value is ready for use. All methods are safe for concurrent use.
type Signal struct {
	mu sync.Mutex
	// mu guards the following.
	woken chan struct{} // closed by the next Wake; nil without a caller of Next
}

// Next returns a channel that the next Wake closes. Call it before you check for changes and then wait. Otherwise you miss a change between
// the two.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken == nil {
		s.woken = make(chan struct{})
	}
	return s.woken
}

// Wake wakes all waiters.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.woken != nil {
		close(s.woken)
		s.woken = nil
	}
}
