package leaderelect

import (
	"fmt"
	"time"
)

// Stats is a snapshot of an [Elector].
type Stats struct {
	Leading   bool      // whether it may act as the leader
	Term      uint64    // of the current leadership; 0 if there is none
	Deadline  time.Time // when the current leadership is lost unless it is renewed; zero if there is none
	Terms     uint64    // how many terms have begun
	Lost      uint64    // how many terms were lost; those that the work, Resign, or the caller has ended count only after ErrDrainTimeout
	Watching  bool      // whether the store reports changes; otherwise the elector polls
	LastError error     // of the last write, or else of the last read, if it had no clear reply; nil if both had one
}

// Stats returns a snapshot of the elector.
func (e *Elector) Stats() Stats {
	e.mu.Lock()
	l := e.current
	s := Stats{Terms: e.terms, Lost: e.lost, Watching: e.watch.works(), LastError: e.health.lastError()}
	e.mu.Unlock()
	if l != nil {
		s.Leading, s.Term, s.Deadline = l.Err() == nil, l.term, l.Deadline()
	}
	return s
}

// health records how the store has replied in this run. A clear reply is a record, a success, or a definite error. The zero
// value is that of a run in which the store was not called yet.
type health struct {
	answered bool    // some read had a clear reply
	wrote    bool    // some write had one
	reads    failing // the last reads, if they have failed
	writes   failing // the last writes, if they have failed; empty if the last read has failed too
}

// failing is a series of calls without a clear reply.
type failing struct {
	err         error // of the last one; nil if there are none
	first, last time.Time
}

// lasts returns the time from the first to the last call of the series.
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
		h.wrote = h.wrote || h.writes.err == nil
		return
	}
	h.reads.note(err)
	if h.reads.err == nil {
		h.answered = true
	} else {
		h.writes = failing{}
	}
}

// lastError returns the error of the last write, or else of the last read. A successful read does not hide failing writes.
func (h *health) lastError() error {
	if h.writes.err != nil {
		return h.writes.err
	}
	return h.reads.err
}

// check returns an error if, for longer than limit, no read has ever had a reply, or reads have replies and writes have
// none. Then the store probably cannot work. An outage of a store that has worked is no error, because a restart of the
// process would not help.
func (h *health) check(limit time.Duration) error {
	switch {
	case !h.answered && h.reads.lasts() > limit:
		return fmt.Errorf("the store has never answered, for %s: %w", h.reads.lasts(), h.reads.err)
	case h.writes.lasts() > limit:
		return fmt.Errorf("the store answers reads but no writes, for %s: %w", h.writes.lasts(), h.writes.err)
	}
	return nil
}

// noteReported notes that a watch has reported the record, which is as good as a read. If the record is held, another elector
// can write.
func (e *Elector) noteReported(held bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health.note("get", nil)
	if held {
		e.health.writes = failing{}
	}
}
