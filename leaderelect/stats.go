package leaderelect

import (
	"fmt"
	"time"
)

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
	s := Stats{Terms: e.terms, Lost: e.lost, Watching: e.watch.Live(), LastError: e.health.lastError()}
	e.mu.Unlock()
	if l != nil {
		s.Leading, s.Term, s.Deadline = l.Err() == nil, l.term, l.Deadline()
	}
	return s
}

// health is what the store has answered in this run. An answer is a reply that is clear: a record, a success, or a
// definite error. The zero value is that of a run in which the store has not been called.
type health struct {
	answered bool    // some read was
	reads    failing // the last read, and those before it
	writes   failing // the same for writes; none if the last read has failed, for then nothing is known of writes
}

// failing is a series of calls without an answer.
type failing struct {
	err         error // of the last one; nil if there are none
	first, last time.Time
}

// lasts returns for how long calls have been made without an answer.
func (f *failing) lasts() time.Duration { return f.last.Sub(f.first) }

// note adds a call to the series, or ends it.
func (f *failing) note(err error) {
	switch {
	case err == nil || definite(err):
		*f = failing{}
	case f.err == nil:
		*f = failing{err, time.Now(), time.Now()}
	default:
		f.err, f.last = err, time.Now()
	}
}

// note notes how a call of the store ended.
func (h *health) note(operation string, err error) {
	if operation != "get" {
		h.writes.note(err)
		return
	}
	h.reads.note(err)
	if h.reads.err == nil {
		h.answered = true
	} else {
		h.writes = failing{}
	}
}

// lastError returns why the last call failed. A read that works does not hide that writes do not.
func (h *health) lastError() error {
	if h.writes.err != nil {
		return h.writes.err
	}
	return h.reads.err
}

// check returns an error if it seems that the store can never work: no read was ever answered, or reads are and writes are
// not, for longer than the given time. A store that has worked and cannot be reached is not an error: a process that is
// started again cannot reach it either.
func (h *health) check(patience time.Duration) error {
	switch {
	case !h.answered && h.reads.lasts() > patience:
		return fmt.Errorf("the store has never answered, for %s: %w", h.reads.lasts(), h.reads.err)
	case h.writes.lasts() > patience:
		return fmt.Errorf("the store answers reads but no writes, for %s: %w", h.writes.lasts(), h.writes.err)
	}
	return nil
}

// noteCall notes how a call of the store ended.
func (e *Elector) noteCall(operation string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.note(operation, err)
}

// noteTold notes that a watch has told the record, which is as good as a read; another writes it if it is held.
func (e *Elector) noteTold(held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.note("get", nil)
	if held {
		e.health.writes = failing{}
	}
}
