package leaderelect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Resign gives the lease up, if this elector leads. The elector then stays out for stayOut, or for two RetryPeriods if that
// is longer, so that others have a chance. Resign is for a drain, an upgrade or a rebalancing: the elector continues to
// run and to follow.
//
// The context of the work ends with [ErrResigned], and the lease is kept while the work drains, as when the caller of Run
// cancels: DrainTimeout applies, and after OnStoppedLeading the lease is released, whatever ReleaseOnCancel says. Resign
// returns when it was, or is lost, or with an error when ctx ends: then the work still goes on to drain. RunOnce returns
// nil for a term that was resigned.
//
// An elector that does not lead just stays out. If a claim of it is in flight, it gives the lease back before its work
// begins.
//
// No callback of this elector may call Resign, which waits for them. The work returns instead.
func (e *Elector) Resign(ctx context.Context, stayOut time.Duration) error {
	return e.resign(ctx, stayOut, "")
}

// HandOver resigns in favor of the elector with the given identity or incarnation: all others hold back for four
// RetryPeriods after the release. If that elector has not taken the lease by then, any may. In everything else HandOver is
// like Resign.
func (e *Elector) HandOver(ctx context.Context, successor string) error {
	return e.resign(ctx, 0, successor)
}

// headStart is how many RetryPeriods others leave to a preferred successor, and minStayOut how many one that has resigned
// leaves to all.
const (
	headStart  = 4
	minStayOut = 2
)

func (e *Elector) resign(ctx context.Context, stayOut time.Duration, successor string) error {
	e.mu.Lock()
	e.outFor, e.successor = max(stayOut, minStayOut*e.cfg.RetryPeriod), successor
	e.outUntil = time.Now().Add(e.outFor)
	l := cmp.Or(e.current, e.ending)
	e.mu.Unlock()
	if l == nil {
		return nil
	}
	l.resign(e.cfg.DrainTimeout)
	select {
	case <-l.released:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("leaderelect: resign from %q: %w", e.cfg.Key, context.Cause(ctx))
	}
}

// stayOut keeps this elector from taking the lease for a while.
func (e *Elector) stayOut(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if until := time.Now().Add(d); until.After(e.outUntil) {
		e.outUntil = until
	}
}

// revoke is HandOver without waiting, and for good: until it is admitted, this elector does not take the lease. It may be
// called again, with another successor.
func (e *Elector) revoke(successor string) {
	e.mu.Lock()
	e.barred = true
	e.outFor, e.successor = 0, successor
	l := e.current
	e.mu.Unlock()
	if l != nil && !l.hasResigned() {
		l.resign(e.cfg.DrainTimeout)
	}
}

// admit undoes revoke, from the next term on.
func (e *Elector) admit() {
	e.mu.Lock()
	was := e.barred
	e.barred = false
	e.mu.Unlock()
	if was {
		lease.Wake(e.wake)
	}
}

// mayTake returns from when on this elector wants the lease.
func (e *Elector) mayTake() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.barred {
		return time.Now().Add(lease.MaxLease)
	}
	return e.outUntil
}

// releaseAttempts bounds the writes of a release: one, and one after each look at what became of the one before.
const releaseAttempts = 3

// release replaces our record by a tombstone with the same term. The work must have returned. It replaces only the version
// that was last seen to be ours, so it cannot touch the record of a successor. If that version is not known, release reads
// the record first. It writes nothing if the store went back to an older record.
func (e *Elector) release(ctx context.Context, t *tenure, read bool) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), e.cfg.RequestTimeout, lease.ErrNoReply)
	defer cancel()
	e.done = max(e.done, t.term) // a tombstone that is under way may replace a record of this term, and only of this
	e.mu.Lock()
	successor := e.successor
	e.mu.Unlock()
	var err error
	for range releaseAttempts {
		if read {
			var v lease.View
			if v, err = e.read(ctx); err != nil {
				break
			}
			regressed := e.seen.Regressed(v)
			if v.Exists && !regressed {
				e.seen.Raise(v.Record)
			}
			if regressed || !v.Held() || v.Record.Incarnation != e.incarnation || v.Record.Term != t.term {
				e.publish(v)
				return // it is not ours; if the store went back to one of ours, another may lead a later term
			}
			t.version, t.acquired = v.Version, v.Record.AcquireTime
		}
		var rec lease.Record
		sent := lease.Beginning()
		rec, _, err = e.write(ctx, t.version, lease.Record{Term: t.term, AcquireTime: t.acquired, Preferred: successor}, sent)
		if err == nil {
			e.seen.Raise(rec)
			e.publish(lease.View{Exists: true, Readable: true, Record: rec})
			return
		}
		read = true
	}
	e.log.WarnContext(ctx, "leaderelect: releasing the lease failed", "term", t.term, "error", err)
}
