package leaderelect

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect/internal/lease"
)

// tenure is what the goroutine of Run knows of the record while it leads.
type tenure struct {
	*Leadership // nil for a claim whose outcome is unknown

	term     uint64
	acquired time.Time
	version  string       // of the last write that is known to have happened
	sent     lease.Moment // when the last write was sent, whether it succeeded or not
	session  string       // in the record of that version
}

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
func (e *Elector) lead(ctx context.Context, t *tenure) outcome {
	// The timer of the drain must start even while a renewal hangs. This goroutine only starts it.
	started := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(started)
		t.startDrain(e.cfg.DrainTimeout)
	})
	defer func() {
		if !stop() {
			<-started
		}
	}()

	// This goroutine exists so that neither the work nor a callback delays a renewal. It ends when OnStoppedLeading has
	// returned, and renewUntil waits for it.
	done := make(chan outcome, 1)
	e.working.Go(func() { done <- e.perform(ctx, t.Leadership) })

	out := e.renewUntil(t, done)
	why := t.end(ErrTermEnded)
	e.setEnding(t.Leadership)
	if out.lost == nil && !errors.Is(why, ErrTermEnded) {
		out.lost = why // while OnStoppedLeading ran
	}
	if out.lost != nil {
		e.countLost()
	}
	ours := out.lost == nil || errors.Is(out.lost, ErrDrainTimeout)
	if ours && (e.cfg.ReleaseOnCancel || ctx.Err() == nil || t.hasResigned()) {
		e.release(ctx, t, false)
		e.presence.Renew() // so that followers read the record
	}
	e.setEnded(t.Leadership)
	return out
}

// perform runs the callbacks of a term.
func (e *Elector) perform(ctx context.Context, l *Leadership) outcome {
	if !l.takesWork() { // the elector has resigned since it claimed the lease
		return judge(ctx, l, nil)
	}
	if hook := e.cfg.Hooks.StartedLeading; hook != nil {
		e.notify("StartedLeading", func() { hook(l.term) })
	}
	l.proceed(workRuns)
	out := judge(ctx, l, lease.Guard(l.work, func(ctx context.Context) error { return e.cfg.OnStartedLeading(ctx, l) }))
	l.endWork(ErrTermEnded)
	l.proceed(workReturned)
	if hook := e.cfg.Hooks.StoppedLeading; hook != nil {
		e.notify("StoppedLeading", func() { hook(l.term, out.cause()) })
	}
	if e.cfg.OnStoppedLeading == nil {
		return out
	}
	err := lease.Guard(l.ctx, func(context.Context) error { e.cfg.OnStoppedLeading(l, out.cause()); return nil })
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
func (e *Elector) renewUntil(t *tenure, done <-chan outcome) outcome {
	tick := time.NewTimer(e.untilRenewal(t))
	defer tick.Stop()
	for {
		select {
		case out := <-done:
			return out
		case <-t.ctx.Done():
			return e.awaitStepDown(t.Leadership, done)
		case v := <-e.watch.News():
			if (!e.wrote(t, v) || e.seen.Regressed(v)) && len(done) == 0 {
				e.verify(t)
			}
		case <-e.presence.Changes():
			if t.session != e.presence.Session() && len(done) == 0 && t.Err() == nil {
				e.renew(t) // the record must not name a session that is not held
				tick.Reset(e.untilRenewal(t))
			}
		case <-tick.C:
			switch { // select picks any case that is ready, and after a pause the timer of the lease may come last
			case len(done) > 0:
			case t.Err() != nil:
				t.end(ErrLeaseExpired)
			default:
				e.renew(t)
			}
			tick.Reset(e.untilRenewal(t))
		}
	}
}

// untilRenewal returns the time until the next renewal. One attempt is always made a quarter of RetryPeriod before the
// deadline.
func (e *Elector) untilRenewal(t *tenure) time.Duration {
	next := time.Until(t.sent.Add(e.cfg.RetryPeriod))
	last := time.Until(t.Deadline().Add(-e.cfg.RetryPeriod / 4))
	if last > 0 && last < next {
		return last
	}
	return next
}

// awaitStepDown waits for the callbacks of a term that is over.
func (e *Elector) awaitStepDown(l *Leadership, done <-chan outcome) outcome {
	overrun := time.NewTimer(time.Until(l.leave()))
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
		e.log.ErrorContext(l.ctx, "leaderelect: the work continues although another elector may lead", "term", l.term, "cause", l.Err())
	} else if err := lease.Guard(l.ctx, func(context.Context) error { e.cfg.OnStepDownOverrun(l); return nil }); err != nil {
		e.log.ErrorContext(l.ctx, "leaderelect: OnStepDownOverrun failed", "term", l.term, "error", err)
	}
	return <-done
}

// renew extends the lease by one write. A write without a reply does not end the term: the deadline does. After a write
// with an unknown outcome, the next write may conflict with it. Then the record is read.
func (e *Elector) renew(t *tenure) {
	t.sent = lease.Beginning()
	rec, entry, err := e.write(t.ctx, t.version, lease.Record{Holder: e.cfg.Identity, Term: t.term, AcquireTime: t.acquired}, t.sent)
	if err == nil {
		t.version, t.session = entry.Version, rec.Session
		e.seen.Raise(rec)
		t.extend(t.sent)
		return
	}
	if t.ctx.Err() == nil {
		e.warnings.Warn(t.ctx, "leaderelect: renewing the lease failed", err, "term", t.term)
		e.verify(t)
	}
}

// wrote reports whether v is a write of this term.
func (e *Elector) wrote(t *tenure, v lease.View) bool {
	return v.Held() && v.Record.Incarnation == e.incarnation && v.Record.Term == t.term && v.Record.Renewal <= e.attempts.Last
}

// verify reads the record to find out which writes of this term have happened. It ends the term if the record is no longer
// ours. If the read fails, nothing changes.
func (e *Elector) verify(t *tenure) {
	v, err := e.read(t.ctx)
	if err != nil {
		if t.ctx.Err() == nil {
			e.warnings.Warn(t.ctx, "leaderelect: reading the record failed", err)
		}
		return
	}
	regressed := e.seen.Regressed(v)
	if !regressed && e.wrote(t, v) {
		if sent, ok := e.attempts.SentAt(v.Record); ok {
			t.extend(sent)
		}
		e.seen.Raise(v.Record)
		t.version, t.session = v.Version, v.Record.Session
		return
	}
	own := v.Held() && v.Record.Incarnation == e.incarnation
	if regressed && (own || !v.Held() || v.Record.Term < t.term) {
		t.end(ErrStoreRegressed)
	} else {
		t.end(ErrLeaseTaken)
	}
	if !regressed {
		e.seen.Raise(v.Record)
	}
	e.publish(v)
}

// ExitOnOverrun is a [Config.OnStepDownOverrun] for work that cannot be stopped otherwise. It logs an error to slog's
// default logger and ends the process with exit code 1, because another process may already lead.
func ExitOnOverrun(l *Leadership) {
	slog.Error("leaderelect: exit: the work continues although another elector may lead", "term", l.term, "cause", l.Err())
	os.Exit(1)
}
