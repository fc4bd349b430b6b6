package leaderelect

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// outcome is how a term ended.
type outcome struct {
	lost     error // why the lease was lost; nil if it was not
	canceled error // the cause of the caller's context, or ErrResigned; nil if neither
	work     error // the error of the callbacks, unless it only repeats why their context ended
}

// cause returns the cause for OnStoppedLeading.
func (o outcome) cause() error {
	why := o.lost
	if why == nil {
		why = o.canceled
	}
	if o.work == nil {
		return why
	}
	if why == nil {
		return o.work
	}
	return errors.Join(why, o.work)
}

// err returns the error of the term. The caller's cancel is no error.
func (o outcome) err() error {
	if o.lost == nil {
		return o.work
	}
	o.canceled = nil
	return o.cause()
}

// byItself reports whether the work returned although it could have continued.
func (o outcome) byItself() bool {
	return o.lost == nil && o.canceled == nil
}

// lead runs the work of a term and renews the lease until the work has returned, then releases it.
func (e *Elector) lead(ctx context.Context, l *Leadership) outcome {
	// The timer of the drain must start even while a renewal hangs. This goroutine only starts it.
	started := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(started)
		l.startDrain(e.cfg.DrainTimeout)
	})
	defer func() {
		if !stop() {
			<-started
		}
	}()

	// This goroutine exists so that neither the work nor a callback delays a renewal. It ends when OnStoppedLeading has
	// returned, and renewUntil waits for it.
	done := make(chan outcome, 1)
	e.working.Go(func() { done <- e.perform(ctx, l) })

	out := e.renewUntil(l, done)
	why := l.end(ErrTermEnded)
	e.setEnding(l)
	if out.lost == nil && !errors.Is(why, ErrTermEnded) {
		out.lost = why // while OnStoppedLeading ran
	}
	if out.lost != nil {
		e.countLost()
	}
	ours := out.lost == nil || errors.Is(out.lost, ErrDrainTimeout)
	if ours && (e.cfg.ReleaseOnCancel || ctx.Err() == nil || l.hasResigned()) {
		e.release(ctx, l.term, l.version, l.acquired)
		e.session.replace() // so that followers read the record
	}
	e.setEnded(l)
	return out
}

// perform runs the callbacks of a term.
func (e *Elector) perform(ctx context.Context, l *Leadership) outcome {
	if !l.takesWork() { // the elector has resigned since it claimed the lease
		return judge(ctx, l, nil)
	}
	out := judge(ctx, l, lease.Guard(l.workCtx, func(ctx context.Context) error { return e.cfg.OnStartedLeading(ctx, l) }))
	l.endWork(ErrTermEnded)
	l.noteReturned()
	if e.cfg.OnStoppedLeading == nil {
		return out
	}
	err := lease.Guard(l.leaseCtx, func(context.Context) error { e.cfg.OnStoppedLeading(l, out.cause()); return nil })
	out.work = errors.Join(out.work, err)
	return out
}

// judge returns the outcome of work that returned err.
func judge(ctx context.Context, l *Leadership, err error) outcome {
	out := outcome{lost: l.Err(), canceled: context.Cause(ctx)}
	if out.canceled == nil && l.hasResigned() {
		out.canceled = ErrResigned
	}
	switch {
	case out.byItself():
		out.work = err
	case errors.Is(err, context.Canceled), errors.Is(err, out.lost), errors.Is(err, out.canceled):
	default:
		out.work = err
	}
	return out
}

// renewUntil renews the lease every RetryPeriod until the callbacks are done. After the term is over, it only waits.
func (e *Elector) renewUntil(l *Leadership, done <-chan outcome) outcome {
	tick := time.NewTimer(e.untilRenewal(l))
	defer tick.Stop()
	for {
		select {
		case out := <-done:
			return out
		case <-l.leaseCtx.Done():
			return e.awaitStepDown(l, done)
		case v := <-e.watch.events():
			if (!e.wrote(l, v) || e.newest.Regressed(v)) && len(done) == 0 {
				e.verify(l)
			}
		case <-e.session.changes():
			if l.session != e.session.name() && len(done) == 0 && l.Err() == nil {
				e.renew(l) // the record must not name a session that is not held
				tick.Reset(e.untilRenewal(l))
			}
		case <-tick.C:
			switch { // select picks any case that is ready, and after a pause the timer of the lease may come last
			case len(done) > 0:
			case l.Err() != nil:
				l.end(ErrLeaseExpired)
			default:
				e.renew(l)
			}
			tick.Reset(e.untilRenewal(l))
		}
	}
}

// untilRenewal returns the time until the next renewal. One attempt is always made a quarter of RetryPeriod before the
// deadline.
func (e *Elector) untilRenewal(l *Leadership) time.Duration {
	next := time.Until(l.lastSent.Add(e.cfg.RetryPeriod))
	last := time.Until(l.Deadline().Add(-e.cfg.RetryPeriod / 4))
	if last > 0 && last < next {
		return last
	}
	return next
}

// awaitStepDown waits for the callbacks of a term that is over.
func (e *Elector) awaitStepDown(l *Leadership, done <-chan outcome) outcome {
	overrun := time.NewTimer(time.Until(l.stepDownBy()))
	defer overrun.Stop()
	select {
	case out := <-done:
		return out
	case <-overrun.C:
	}
	if len(done) > 0 { // the work returned in time, and select picked the timer
		return <-done
	}
	if e.cfg.OnStepDownOverrun == nil {
		e.log.ErrorContext(l.leaseCtx, "the work continues although another elector may lead", "term", l.term, "error", l.Err())
	} else if err := lease.Guard(l.leaseCtx, func(context.Context) error { e.cfg.OnStepDownOverrun(l); return nil }); err != nil {
		e.log.ErrorContext(l.leaseCtx, "OnStepDownOverrun failed", "term", l.term, "error", err)
	}
	return <-done
}

// renew extends the lease by one write. A write without a reply does not end the term: the deadline does. After a write
// with an unknown outcome, the next write may conflict with it. Then the record is read.
func (e *Elector) renew(l *Leadership) {
	l.lastSent = lease.Beginning()
	rec, entry, err := e.write(l.leaseCtx, l.version, lease.Record{Holder: e.cfg.Identity, Term: l.term, AcquireTime: l.acquired}, l.lastSent)
	if err == nil {
		l.version, l.session = entry.Version, rec.Session
		e.newest.Raise(rec)
		l.extend(l.lastSent)
		return
	}
	if l.leaseCtx.Err() == nil {
		e.warnings.Warn(l.leaseCtx, "renewing the lease failed", err, "term", l.term)
		e.verify(l)
	}
}

// wrote reports whether v is a write of this term.
func (e *Elector) wrote(l *Leadership, v lease.View) bool {
	return v.Held() && v.Record.Incarnation == e.incarnation && v.Record.Term == l.term && v.Record.Renewal <= e.attempts.Last
}

// verify reads the record to find out which writes of this term have happened. It ends the term if the record is no longer
// ours. If the read fails, nothing changes.
func (e *Elector) verify(l *Leadership) {
	v, err := e.read(l.leaseCtx)
	if err != nil {
		if l.leaseCtx.Err() == nil {
			e.warnings.Warn(l.leaseCtx, "reading the record failed", err)
		}
		return
	}
	regressed := e.newest.Regressed(v)
	if !regressed && e.wrote(l, v) {
		if sent, ok := e.attempts.SentAt(v.Record); ok {
			l.extend(sent)
		}
		e.newest.Raise(v.Record)
		l.version, l.session = v.Version, v.Record.Session
		return
	}
	ours := v.Held() && v.Record.Incarnation == e.incarnation
	if regressed && (ours || !v.Held() || v.Record.Term < l.term) {
		l.end(ErrStoreRegressed)
	} else {
		l.end(ErrLeaseTaken)
	}
	if !regressed {
		e.newest.Raise(v.Record)
	}
	e.publish(v)
}

// ExitOnOverrun is a [Config.OnStepDownOverrun] for work that cannot be stopped otherwise. It logs an error to slog's
// default logger and ends the process with exit code 1, because another process may already lead.
func ExitOnOverrun(l *Leadership) {
	slog.Error("the work continues although another elector may lead, and the process ends",
		"lease", l.key, "term", l.term, "error", l.Err())
	os.Exit(1)
}
