package leaderelect

import (
	"maps"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// seen is the newest state of the record that an elector has seen, in a read or in a write of its own that was
// acknowledged.
type seen struct {
	term        uint64
	incarnation string
	renewal     uint64
	lease       time.Duration // of the last holder that said
}

// regressed reports whether v is older than what was seen, or from another history.
func (s *seen) regressed(v lease.View) bool {
	switch {
	case s.term == 0:
		return false
	case v.Record.Term < s.term: // also when there is no record
		return true
	case v.Record.Term > s.term:
		return false
	default:
		return v.Record.Incarnation != s.incarnation || v.Record.Renewal < s.renewal
	}
}

// raise takes r in, unless r is older: what was seen is not unseen.
func (s *seen) raise(r lease.Record) {
	if d := r.Lease(); d > 0 {
		s.lease = d
	}
	if r.Term < s.term || r.Term == s.term && r.Renewal < s.renewal {
		return
	}
	s.term, s.incarnation, s.renewal = r.Term, r.Incarnation, r.Renewal
}

// attempts numbers the writes of one elector, so that incarnation and renewal of a record name one request and no other.
// When a reply is missing, the record tells by them which request it came from, and so when that was sent.
//
// Only the goroutine of Run uses it.
type attempts struct {
	term uint64
	last uint64                  // number of the last write of any term
	sent map[uint64]lease.Moment // when writes of the term were sent; those that are too old to matter are dropped
}

// next numbers a write that is about to be sent. Writes from before the horizon are forgotten.
func (a *attempts) next(term uint64, now lease.Moment, horizon time.Time) uint64 {
	if term != a.term || a.sent == nil {
		a.term, a.sent = term, make(map[uint64]lease.Moment)
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
func (a *attempts) sentAt(rec lease.Record) (lease.Moment, bool) {
	if rec.Term != a.term {
		return lease.Moment{}, false
	}
	at, ok := a.sent[rec.Renewal]
	return at, ok
}

// viewOf decodes e, which was read by the given time.
func viewOf(e Entry, at time.Time) lease.View {
	return lease.ViewOf(e.Value, e.Version, e.Term, e.Floor, at)
}

// leaderOf returns what a record says to followers.
func leaderOf(r lease.Record) Leader {
	return Leader{Identity: r.Holder, Incarnation: r.Incarnation, Term: r.Term, Metadata: maps.Clone(r.Metadata)}
}
