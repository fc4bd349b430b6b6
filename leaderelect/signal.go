package leaderelect

import (
	"sync"
	"time"
)

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

// wake sends to a channel of capacity 1, whose receiver looks at everything when it receives.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it will look anyway
	}
}

// tell sends v to a channel of capacity 1 that has the newest only. There is no other sender.
func tell[T any](c chan T, v T) {
	select {
	case <-c: // nobody needs the one before
	default:
	}
	c <- v // there is room
}

// alarm returns a channel that tells when d has passed, and what ends it. If d is over there is no timer: those that are due
// already crash the race detector when goroutines of one synctest bubble receive from them beside each other
// (https://go.dev/issue/78156).
func alarm(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		now := make(chan time.Time)
		close(now)
		return now, func() {}
	}
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// closedWithin waits until c, on which nothing is sent, is closed. It returns false when timeout has passed before.
func closedWithin(c <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
