package lease

import "time"

// Seen is the newest state of a record that an elector has seen: in a read, or in its own write that was acknowledged. The
// zero value has seen nothing.
type Seen struct {
	Term  uint64        // the greatest; 0 if nothing was seen
	Lease time.Duration // that of the last holder whose record says one

	incarnation string
	renewal     uint64
}

// Regressed reports whether v is older than what was seen, or from another history.
func (s *Seen) Regressed(v View) bool {
	switch {
	case s.Term == 0:
		return false
	case v.Record.Term < s.Term: // also when there is no record
		return true
	case v.Record.Term > s.Term:
		return false
	default:
		return v.Record.Incarnation != s.incarnation || v.Record.Renewal < s.renewal
	}
}

// Raise notes that r was seen. An older r changes only Lease.
func (s *Seen) Raise(r Record) {
	if d := r.Lease(); d > 0 {
		s.Lease = d
	}
	if r.Term < s.Term || r.Term == s.Term && r.Renewal < s.renewal {
		return
	}
	s.Term, s.incarnation, s.renewal = r.Term, r.Incarnation, r.Renewal
}

// Attempts numbers the writes of one elector, so that the incarnation and the renewal of a record name one request. If a
// reply is lost, the record shows which request wrote it, and so when that request was sent.
//
// An Attempts belongs to one goroutine.
type Attempts struct {
	Term uint64 // of the last write
	Last uint64 // number of the last write of any term

	sent map[uint64]Moment // when the writes of Term were sent; the oldest are dropped
}

// Next numbers a write that is about to be sent, and forgets writes that were sent before the horizon.
func (a *Attempts) Next(term uint64, now Moment, horizon time.Time) uint64 {
	if term != a.Term || a.sent == nil {
		a.Term, a.sent = term, make(map[uint64]Moment)
	}
	for n, at := range a.sent {
		if at.Before(horizon) {
			delete(a.sent, n)
		}
	}
	a.Last++
	a.sent[a.Last] = now
	return a.Last
}

// SentAt returns when the write of rec was sent. It returns false for a write of another term, and for one that is
// forgotten.
func (a *Attempts) SentAt(rec Record) (Moment, bool) {
	if rec.Term != a.Term {
		return Moment{}, false
	}
	at, ok := a.sent[rec.Renewal]
	return at, ok
}
