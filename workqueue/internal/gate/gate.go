package gate

import (
	"time"

	"golang.org/x/time/rate"
)

// recheck is the longest time between two checks of the limiter, whose limit may have changed.
const recheck = time.Minute

// Gate takes a token of a limiter for each key that is dispatched.
type Gate struct {
	limiter *rate.Limiter
	open    func()

	opens time.Time   // as last computed, the limiter allows nothing before this time
	timer *time.Timer // calls open at that time; nil until it is needed
}

// New returns a gate that takes the tokens of limiter. It starts no goroutine. open is called when a closed gate opens.
func New(limiter *rate.Limiter, open func()) *Gate { return &Gate{limiter: limiter, open: open} }

// Pass takes a token, if there is one now. If not, it returns false and has open called in time.
func (g *Gate) Pass(now time.Time) bool {
	wait := g.opens.Sub(now)
	if wait <= 0 {
		token := g.limiter.ReserveN(now, 1)
		wait = token.DelayFrom(now) // forever, if the limiter's burst is zero
		if wait <= 0 {
			return true
		}
		token.CancelAt(now)
		wait = min(wait, recheck)
		g.opens = now.Add(wait)
	}
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, g.open)
	} else {
		g.timer.Reset(wait)
	}
	return false
}
