package dispatch

import (
	"time"

	"golang.org/x/time/rate"
)

// recheck is the longest time between two checks of the limiter, whose limit may have changed.
const recheck = time.Minute

// Limit takes a token of a limiter for each key that is dispatched.
type Limit struct {
	limiter *rate.Limiter
	wake    func()

	next  time.Time   // as last computed, the limiter allows nothing before this time
	timer *time.Timer // calls wake at that time; nil until it is needed
}

// New returns a limit that takes the tokens of limiter. It starts no goroutine. After a refusal, wake is called when there is a token.
func New(limiter *rate.Limiter, wake func()) *Limit { return &Limit{limiter: limiter, wake: wake} }

// Allow takes a token, if there is one now. If not, it returns false and has wake called in time.
func (l *Limit) Allow(now time.Time) bool {
	wait := l.next.Sub(now)
	if wait <= 0 {
		token := l.limiter.ReserveN(now, 1)
		wait = token.DelayFrom(now) // forever, if the limiter's burst is zero
		if wait <= 0 {
			return true
		}
		token.CancelAt(now)
		wait = min(wait, recheck)
		l.next = now.Add(wait)
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.wake)
	} else {
		l.timer.Reset(wait)
	}
	return false
}
