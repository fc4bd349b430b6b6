package leaderelect

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// Resign ends the leadership of this elector, if it leads. The elector continues to run and to follow, for example during
// an upgrade or a rebalancing. It does not take the lease for stayOut, but at least two RetryPeriods, so that others have
// a chance. The last call of Resign or HandOver decides how long it stays out.
//
// The context of the work ends with [ErrResigned], and the elector keeps the lease while the work drains, for
// DrainTimeout at most. After OnStoppedLeading it releases the lease, even without ReleaseOnCancel. Resign returns when
// the lease was released or lost. If ctx ends first, Resign returns an error and the work continues to drain. RunOnce
// returns nil after a Resign, unless the lease was lost or the work has returned an error of its own.
//
// If this elector does not lead, Resign only keeps it from taking the lease. If its claim is in flight, it gives the lease
// back before its work begins.
//
// Resign waits for the callbacks of this elector, so they must not call it. The work can return instead.
func (e *Elector) Resign(ctx context.Context, stayOut time.Duration) error {
	return e.resign(ctx, stayOut, "")
}

// HandOver is like Resign, in favor of the elector with the given identity or incarnation. All other electors wait for four
// RetryPeriods after the release. If the successor has not taken the lease by then, any elector may.
func (e *Elector) HandOver(ctx context.Context, successor string) error {
	return e.resign(ctx, 0, successor)
}

// headStart is how many RetryPeriods the others wait for a preferred successor. minStayOut is how many an elector that has
// resigned waits for all others.
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

// revoke is HandOver without waiting. This elector does not take the lease again until admit is called. revoke may be called
// again with another successor.
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

// mayTake returns the time from which this elector competes.
func (e *Elector) mayTake() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.barred {
		return time.Now().Add(lease.MaxLease)
	}
	return e.outUntil
}

// releaseAttempts is the maximum number of writes of a release. Between two writes, the record is read.
const releaseAttempts = 3

// release replaces our record by a tombstone with the same term, after the work has returned. It replaces only the given
// version, the last that this elector has written, so it cannot replace the record of a successor. If version is "", the outcome
// of the last write is not clear, and release reads the record first. It writes nothing if the store has gone back to an older record.
func (e *Elector) release(ctx context.Context, term uint64, version string, acquired time.Time) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), e.cfg.RequestTimeout, lease.ErrNoReply)
	defer cancel()
	e.lastTerm = max(e.lastTerm, term) // a tombstone in flight may still replace a record of this term, and of no other
	e.mu.Lock()
	successor := e.successor
	e.mu.Unlock()
	var err error
	for range releaseAttempts {
		if version == "" {
			var v lease.View
			if v, err = e.read(ctx); err != nil {
				break
			}
			regressed := e.newest.Regressed(v)
			if v.Exists && !regressed {
				e.newest.Raise(v.Record)
			}
			ours := v.Held() && v.Record.Incarnation == e.incarnation && v.Record.Term == term
			if ours && e.ourTerm != term { // a claim without a clear reply
				_, ours = e.attempts.SentAt(v.Record)
			}
			if regressed || !ours {
				e.publish(v)
				return // not our record; or an older one of ours, and another elector may lead a later term
			}
			e.ourTerm = term
			version, acquired = v.Version, v.Record.AcquireTime
		}
		var rec lease.Record
		sent := lease.Beginning()
		rec, _, err = e.write(ctx, version, lease.Record{Term: term, AcquireTime: acquired, Preferred: successor}, sent)
		if err == nil {
			e.newest.Raise(rec)
			e.publish(lease.View{Exists: true, Readable: true, Record: rec})
			return
		}
		version = ""
	}
	e.log.WarnContext(ctx, "releasing the lease failed", "term", term, "error", err)
}
