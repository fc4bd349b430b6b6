package leaderelect

import "time"

// attempts numbers the writes of one elector, so that incarnation and renewal of a record name one request and no other.
// When a reply is missing, the record tells by them which request it came from, and so when that was sent.
//
// Only the goroutine of Run uses it.
type attempts struct {
	term uint64
	last uint64            // number of the last write of any term
	sent map[uint64]moment // when writes of the term were sent; those that are too old to matter are dropped
}

// next numbers a write that is about to be sent. Writes from before the horizon are forgotten.
func (a *attempts) next(term uint64, now moment, horizon time.Time) uint64 {
	if term != a.term || a.sent == nil {
		a.term, a.sent = term, make(map[uint64]moment)
	}
	for n, at := range a.sent {
		if at.Before(horizon) {
			delete(a.sent, n)
		}
	}
	a.last++
	a.sent[a.last] = now
	return a.last
}

// sentAt returns when the write was sent that left rec behind. It is false for a write that is not ours or was forgotten.
func (a *attempts) sentAt(rec record) (moment, bool) {
	if rec.Term != a.term {
		return moment{}, false
	}
	at, ok := a.sent[rec.Renewal]
	return at, ok
}
