package leaderelect

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Resign gives the lease up, if this elector leads, and does not take it for stayOut from then on, or for two
// RetryPeriods if that is longer, so that others have a chance. It is for a drain, an upgrade or a rebalancing, while
// the elector goes on running and following.
//
// The context of the work ends with [ErrResigned], and the lease is kept while the work drains, as when the caller of Run
// cancels: DrainTimeout applies, and after OnStoppedLeading the lease is released, whatever ReleaseOnCancel says. Resign
// returns when it was, or is lost, or with an error when ctx ends: then the work still goes on to drain. RunOnce returns
// nil for a term that was resigned.
//
// An elector that does not lead just stays out. If a claim of it is under way, it gives the lease back before its work has
// begun.
//
// No callback of this elector may call Resign, which waits for them. The work returns instead.
func (e *Elector) Resign(ctx context.Context, stayOut time.Duration) error {
	return e.resign(ctx, stayOut, "")
}

// HandOver resigns in favour of the elector with the given identity or incarnation: for four RetryPeriods after the
// release all others hold back. If it does not take the lease by then, anyone may. In everything else it is like Resign.
func (e *Elector) HandOver(ctx context.Context, successor string) error {
	return e.resign(ctx, 0, successor)
}

// headStart is how many RetryPeriods others leave to a preferred successor, slotHeadStart how many they do in Slots, where
// each has a new plan by then, and minStayOut how many one that has resigned leaves to all.
const (
	headStart     = 4
	slotHeadStart = 1
	minStayOut    = 2
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
		wake(e.wake)
	}
}

// mayTake returns from when on this elector wants the lease.
func (e *Elector) mayTake() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.barred {
		return time.Now().Add(maxLease)
	}
	return e.outUntil
}
