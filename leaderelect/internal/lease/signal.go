package lease

import (
	"sync"
	"time"
)

// Signal wakes everybody who waits. The zero value is ready.
type Signal struct {
	mu sync.Mutex
	// mu guards the following.
	next chan struct{} // closed by the next Fire; nil when nobody has waited since the last
}

// Wait returns a channel that is closed by the next Fire.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Fire wakes all that wait.
func (s *Signal) Fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}

// Wake sends to a channel of capacity 1, whose receiver looks at everything when it receives.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will look anyway
	}
}

// Tell sends v to a channel of capacity 1 that has the newest only. There is no other sender.
func Tell[T any](c chan T, v T) {
	select {
	case <-c: // nobody needs the one before
	default:
	}
	c <- v // there is room
}

// Alarm returns a channel that tells when d has passed, and what ends it. If d is over there is no timer: those that are due
// already crash the race detector when goroutines of one synctest bubble receive from them concurrently
// (https://go.dev/issue/78156).
func Alarm(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		now := make(chan time.Time)
		close(now)
		return now, func() {}
	}
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// ClosedWithin waits until c, on which nothing is sent, is closed. It returns false when timeout has passed before.
func ClosedWithin(c <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	}
	select { // both may have happened, and the select above took the timer
	case <-c:
		return true
	default:
		return false
	}
}
