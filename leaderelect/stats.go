package leaderelect

import "time"

// Stats is what an [Elector] has done so far.
type Stats struct {
	Leading   bool      // it may act as the leader
	Term      uint64    // of the leadership that lasts; 0 if there is none
	Deadline  time.Time // when it is lost unless it is renewed; zero if there is none
	Terms     uint64    // how many terms it has begun
	Lost      uint64    // how many of them were lost, and not ended by the work, by Resign or by the caller
	Watching  bool      // the store tells of changes; if not, the record is polled
	LastError error     // why the last write, or else the last read of the store had no clear answer; nil if both had
}

// Stats returns what the elector has done so far.
func (e *Elector) Stats() Stats {
	e.mu.Lock()
	l := e.current
	s := Stats{Terms: e.terms, Lost: e.lost, Watching: e.watching.isLive(), LastError: e.health.lastError()}
	e.mu.Unlock()
	if l != nil {
		s.Leading, s.Term, s.Deadline = l.Err() == nil, l.term, l.Deadline()
	}
	return s
}
