package lease

import "time"

// Wake sends to a channel of capacity 1. Its receiver checks for all changes when it receives.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // the receiver will check anyway
	}
}

// Replace puts v into a channel of capacity 1, in place of an older value. There is no other sender.
func Replace[T any](c chan T, v T) {
	select {
	case <-c: // an older value is obsolete
	default:
	}
	c <- v // there is room
}

// Alarm returns a channel that is ready after d, and a function that stops the timer. If d is not positive, there is no
// timer: timers that are already due crash the race detector if goroutines of one synctest bubble receive from them
// concurrently (https://go.dev/issue/78156).
func Alarm(d time.Duration) (<-chan time.Time, func()) {
	if d <= 0 {
		now := make(chan time.Time)
		close(now)
		return now, func() {}
	}
	timer := time.NewTimer(d)
	return timer.C, func() { timer.Stop() }
}

// ClosedWithin waits until c is closed. It returns false if timeout passes first. Nothing is sent on c.
func ClosedWithin(c <-chan struct{}, timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	}
	select { // both may be ready, and the select above may have picked the timer
	case <-c:
		return true
	default:
		return false
	}
}
