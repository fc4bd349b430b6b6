package leaderelect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
	"github.com/setpoint-go/setpoint/retry"
)

// observation is the record as a follower has seen it, and since when.
type observation struct {
	lease.Observation
	jitter    time.Duration // drawn once per version
	regressed bool
}

// candidacy is the state of the goroutine of Run while it follows the record.
type candidacy struct {
	record    observation
	look      time.Time // when the record is read next
	reported  time.Time // when the watch last reported the record
	notBefore time.Time // when the record may be written next: once per RetryPeriod
	unsure    uint64    // the last term that was claimed without a clear reply
	ended     string    // the last session of a holder that has ended; "" is none
	endedAt   time.Time // when that was reported
}

// campaign follows the record until this elector has taken it. It returns nil when ctx ends first.
func (e *Elector) campaign(ctx context.Context) *Leadership {
	c := candidacy{record: e.prior}
	e.prior, e.refused = observation{}, nil
	for ctx.Err() == nil && e.refused == nil {
		if t := e.step(ctx, &c); t != nil {
			return t
		}
	}
	if c.unsure > e.lastTerm && e.cfg.ReleaseOnCancel {
		e.release(ctx, c.unsure, "", time.Time{})
	}
	return nil
}

// step waits for the next event, and handles it: it takes the record if it is free, uses a report of the watch, or reads the
// record.
func (e *Elector) step(ctx context.Context, c *candidacy) *Leadership {
	next, free := c.look, e.freeAt(c)
	if !free.IsZero() && free.Before(next) {
		next = free
	}
	v, reported, err := e.await(ctx, c, next)
	switch {
	case err != nil:
		return nil
	case reported:
		c.reported = time.Now()
		e.noteReported(v.Held())
		if e.newest.Regressed(v) { // or the report is late
			c.look = time.Now()
			return nil
		}
		return e.follow(ctx, c, v)
	case time.Now().Before(c.look):
		if free = e.freeAt(c); free.IsZero() || time.Now().Before(free) { // it has resigned in the meantime
			return nil
		}
		return e.claim(ctx, c)
	}

	v, err = e.read(ctx)
	if err != nil {
		switch {
		case ctx.Err() != nil:
		case e.cannotWork(err, false):
			e.refused = err
		default:
			e.warnings.Warn(ctx, "reading the record failed", err)
		}
		c.look = time.Now().Add(e.pollPeriod())
		return nil
	}
	if e.watch.works() && !c.reported.IsZero() && time.Since(c.reported) > e.cfg.RetryPeriod && c.record.Version != v.Version {
		e.watch.restart() // it has missed a change
	}
	return e.follow(ctx, c, v)
}

// await waits until the given time, or until a hint arrives. It returns a report of the watch. After the end of the holder's
// session, it makes the record due for a read, because the record may have been renewed since it was seen.
func (e *Elector) await(ctx context.Context, c *candidacy, until time.Time) (v lease.View, reported bool, err error) {
	due, stop := lease.Alarm(time.Until(until))
	defer stop()
	select {
	case <-ctx.Done():
		return lease.View{}, false, ctx.Err()
	case v := <-e.watch.events():
		return v, true, nil
	case c.ended = <-e.leaderSession.ends():
		c.endedAt = time.Now()
		c.look = c.endedAt
		return lease.View{}, false, nil
	case <-e.wake:
		return lease.View{}, false, nil
	case <-due:
		return lease.View{}, false, nil
	}
}

// follow notes the current record. If the record shows that an earlier claim was successful, follow begins its term.
func (e *Elector) follow(ctx context.Context, c *candidacy, v lease.View) *Leadership {
	if t := e.adopt(ctx, v); t != nil {
		return t
	}
	e.observe(ctx, &c.record, v)
	c.look = time.Now().Add(e.pollPeriod())
	if e.watch.works() {
		// A leader renews every RetryPeriod. If the watch does not report that, the leader or the watch has failed.
		c.look = c.look.Add(e.cfg.RetryPeriod)
	}
	return nil
}

// claim tries to take the record.
func (e *Elector) claim(ctx context.Context, c *candidacy) *Leadership {
	c.notBefore = time.Now().Add(e.cfg.RetryPeriod)
	c.look = time.Now() // if it fails
	early := time.Now().Before(e.expiresAt(c.record))
	t, err := e.take(ctx, c.record.View)
	if early && !definite(err) {
		e.notEarly = time.Now().Add(e.cfg.LeaseDuration)
	}
	switch {
	case t != nil:
		return t
	case ctx.Err() == nil && e.cannotWork(err, true):
		e.refused = err
	case err != nil && !definite(err):
		c.unsure = e.attempts.Term
		e.warnings.Warn(ctx, "taking the lease failed", err)
	}
	return nil
}

// observe notes a record that was read or reported. The lease of a new version counts from now.
func (e *Elector) observe(ctx context.Context, o *observation, v lease.View) {
	if e.refused = notOfElector(v); e.refused != nil {
		return
	}
	if o.Since.IsZero() || o.Exists != v.Exists || o.Version != v.Version {
		if !o.Since.IsZero() && v.Held() { // another elector can write
			e.noteReported(true)
		}
		*o = observation{Observation: lease.Observation{Since: v.At}, jitter: time.Duration(e.random() * float64(min(takeoverJitter, e.cfg.RetryPeriod)))}
		if e.newest.Regressed(v) {
			o.regressed = true
			e.log.WarnContext(ctx, "the record is not followed", "term", v.Record.Term, "seen", e.newest.Term, "error", ErrStoreRegressed)
		}
	}
	o.View = v
	if !v.Exists || v.Record.Incarnation != e.incarnation {
		e.ourTerm = 0
	}
	if v.Exists && !o.regressed {
		e.newest.Raise(v.Record)
	}
	e.publish(v)
	if v.Held() && !o.regressed && v.Record.Incarnation != e.incarnation {
		e.leaderSession.watch(v.Record.Session)
	} else {
		e.leaderSession.watch("")
	}
}

// freeAt returns the time from which this elector may take the record, if its version does not change. It is zero if the record has not
// been read yet.
func (e *Elector) freeAt(c *candidacy) time.Time {
	free := e.expiresAt(c.record)
	if free.IsZero() {
		return free
	}
	if e.cfg.Fenced && c.orphaned() && free.After(e.notEarly) {
		free = c.record.Since
		if free.Before(e.notEarly) {
			free = e.notEarly
		}
	}
	for _, t := range []time.Time{c.notBefore, e.mayTake()} {
		if t.After(free) {
			free = t
		}
	}
	return free
}

// orphaned reports whether the record may be taken early. Its holder must have declared fenced work, and the session that it
// names must have ended before the record was read last. A tombstone does not count, and neither does a record that names
// another session or none.
func (c *candidacy) orphaned() bool {
	return c.ended != "" && c.record.Held() && c.record.Record.Fenced && !c.record.regressed &&
		c.record.Record.Session == c.ended && !c.record.At.Before(c.endedAt)
}

// expiresAt returns the time from which no elector holds the record, if its version does not change.
func (e *Elector) expiresAt(o observation) time.Time {
	// Fenced work may have begun while the previous leader still worked. Until the lease of that leader is over, a release
	// by its successor frees the lease for fenced work only.
	outlived := o.Record.Fenced && !e.cfg.Fenced
	ours := o.Record.Incarnation == e.incarnation
	switch {
	case o.Since.IsZero():
		return o.Since
	case o.regressed || o.Exists && !o.Readable || o.Held() && ours && o.Record.Term != e.ourTerm:
		// The record does not say who leads. That elector leads for at most the longest lease that this one has seen. The last case is a record of ours
		// that was restored with another term: another elector may lead in the one before.
		return o.Since.Add(max(o.Record.Lease(), e.newest.Lease, e.cfg.LeaseDuration) + o.jitter)
	case o.Record.Released && !outlived && o.Record.Preferred != "" && o.Record.Preferred != e.cfg.Identity && o.Record.Preferred != e.incarnation:
		return o.Since.Add(e.headStart + o.jitter)
	case !o.Exists, o.Record.Released && !outlived, ours:
		// The last case is a term of ours, which is over because our work has returned.
		return o.Since
	default:
		return o.Since.Add(cmp.Or(o.Record.Lease(), e.cfg.LeaseDuration) + o.jitter)
	}
}

// take claims the next term by replacing v. It returns nil and no error if the reply came too late.
func (e *Elector) take(ctx context.Context, v lease.View) (*Leadership, error) {
	last := max(e.newest.Term, v.Record.Term)
	if last == math.MaxUint64 {
		return nil, errNoTerm
	}
	term := max(last+1, e.floor)
	sent := lease.Beginning()
	e.created = 0
	if v.Version == "" {
		e.created = term
	}
	// The caller's cancel does not end this call: otherwise we could hold the lease without knowing it.
	rec, entry, err := e.write(context.WithoutCancel(ctx), v.Version, lease.Record{Holder: e.cfg.Identity, Term: term, AcquireTime: sent.Time}, sent)
	if err != nil {
		return nil, err
	}
	if e.tooLow(rec, entry.Floor) {
		return e.take(ctx, viewOf(entry, time.Now()))
	}
	return e.begin(ctx, rec, entry.Version, sent), nil
}

// tooLow reports whether rec, which this elector has created, has a term below the floor of the backend. Such a term may
// have been used before the record was deleted. It does not begin, and the next claim begins at the floor.
func (e *Elector) tooLow(rec lease.Record, floor uint64) bool {
	if rec.Term != e.created || floor <= rec.Term {
		return false
	}
	e.ourTerm, e.lastTerm, e.floor = rec.Term, rec.Term, floor
	e.newest.Raise(rec)
	return true
}

// adopt begins the term of a claim whose reply was lost, if v shows that the claim was successful.
func (e *Elector) adopt(ctx context.Context, v lease.View) *Leadership {
	if !v.Held() || v.Record.Incarnation != e.incarnation || v.Record.Term <= e.lastTerm || e.newest.Regressed(v) {
		return nil
	}
	sent, ok := e.attempts.SentAt(v.Record)
	if !ok || e.tooLow(v.Record, v.Floor) {
		return nil
	}
	return e.begin(ctx, v.Record, v.Version, sent)
}

// begin begins the term of rec, which this elector has written with a request that was sent at the given time. It returns
// nil if that is too long ago.
func (e *Elector) begin(ctx context.Context, rec lease.Record, version string, sent lease.Moment) *Leadership {
	e.newest.Raise(rec)
	e.ourTerm = rec.Term
	if sent.Left(e.cfg.RenewDeadline, lease.Present()) <= 0 {
		return nil
	}
	e.lastTerm = rec.Term
	l := newLeadership(ctx, &e.cfg, rec.Term, sent)
	l.acquired, l.version, l.session = rec.AcquireTime, version, rec.Session
	e.setCurrent(l)
	e.publish(lease.View{Exists: true, Readable: true, Record: rec})
	e.leaderSession.watch("")
	e.log.InfoContext(ctx, "leadership began", "term", rec.Term)
	return l
}

// read reads the record.
func (e *Elector) read(ctx context.Context) (lease.View, error) {
	sent := time.Now()
	entry, err := lease.Do(ctx, &e.calls, e.cfg.RequestTimeout, e.cfg.Store.Get, e.cfg.Key)
	at := time.Now()
	e.noteCall(ctx, "get", at.Sub(sent), err)
	switch {
	case err == nil:
		return viewOf(entry, at), nil
	case errors.Is(err, ErrNotFound):
		return lease.View{At: at}, nil
	default:
		return lease.View{}, err
	}
}

// write numbers rec, completes it, and stores it in place of the given version. If version is "", it creates the record.
func (e *Elector) write(ctx context.Context, version string, rec lease.Record, sent lease.Moment) (lease.Record, Entry, error) {
	rec.Incarnation = e.incarnation
	rec.Renewal = e.attempts.Next(rec.Term, sent, sent.Add(-e.cfg.RenewDeadline))
	rec.LeaseMillis = lease.Millis(e.cfg.LeaseDuration)
	rec.RenewTime = sent.UTC()
	rec.AcquireTime = rec.AcquireTime.UTC()
	rec.Metadata = e.cfg.Metadata
	rec.Released, rec.Fenced = rec.Holder == "", e.cfg.Fenced
	if !rec.Released {
		rec.Session = e.session.name()
	}
	if amend := e.link.Amend; amend != nil {
		amend(&rec)
	}
	value, err := json.Marshal(rec)
	if err != nil {
		return rec, Entry{}, fmt.Errorf("leaderelect: encode record: %w", err)
	}
	operation, put := "update", e.cfg.Store.Update
	if version == "" {
		operation, put = "create", e.cfg.Store.Create
	}
	entry, err := lease.Do(ctx, &e.calls, e.cfg.RequestTimeout, put, Entry{Key: e.cfg.Key, Value: value, Term: rec.Term, Version: version})
	e.noteCall(ctx, operation, time.Since(sent.Time), err)
	return rec, entry, err
}

// noteCall notes how a call of the store ended.
func (e *Elector) noteCall(ctx context.Context, operation string, took time.Duration, err error) {
	if err == nil || definite(err) || ctx.Err() == nil { // otherwise the caller has canceled
		e.mu.Lock()
		e.health.note(operation, err)
		e.mu.Unlock()
	}
	if hook := e.cfg.Hooks.Request; hook != nil {
		if err := lease.Guard(ctx, func(context.Context) error { hook(operation, took, err); return nil }); err != nil {
			e.log.ErrorContext(ctx, "a hook failed", "hook", "Request", "error", err)
		}
	}
}

// definite reports whether err proves that a write has not happened.
func definite(err error) bool {
	return errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound)
}

// pollPeriod returns the time between two reads of a follower.
func (e *Elector) pollPeriod() time.Duration {
	return e.cfg.RetryPeriod + time.Duration(e.random()*pollJitter*float64(e.cfg.RetryPeriod))
}

// random returns the result of Config.Rand, or 0.5 if Rand panics or its result is not in [0, 1).
func (e *Elector) random() float64 {
	r := -1.0
	if err := lease.Guard(context.Background(), func(context.Context) error { r = e.cfg.Rand(); return nil }); err != nil {
		e.log.Error("Rand failed", "error", err)
	}
	if r >= 0 && r < 1 {
		return r
	}
	return 0.5
}

// notOfElector returns an error if v is the record in which package shard keeps its number of slots. No Elector may take that record.
func notOfElector(v lease.View) error {
	if v.Record.Slots == 0 {
		return nil
	}
	return fmt.Errorf("the record is that of %d slots: give the Elector a key of its own: %w", v.Record.Slots, ErrMismatch)
}

// cannotWork reports whether err says that the store can never work, and no call of its kind has worked in this run.
func (e *Elector) cannotWork(err error, write bool) bool {
	if !retry.IsPermanent(err) || e.link.Persistent {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if write {
		return !e.health.wrote
	}
	return !e.health.answered
}

// refusal returns the reason why this elector must not compete for its key, or nil.
func (e *Elector) refusal() error {
	if e.refused == nil {
		return nil
	}
	return fmt.Errorf("leaderelect: run %q: %w", e.cfg.Key, e.refused)
}
