package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// never is the time until something that is not to happen in this Run.
const never = time.Duration(1 << 62)

// process reconciles the key of item, and decides what becomes of it. It returns false if the key has to wait for something
// before. The hand is that of the worker, nil if there is none.
func (c *Controller[K]) process(ctx context.Context, item workqueue.Item[K], h *hand[K]) (report Report[K], ok bool) {
	var told waiters.Verdict // after Done: who hears that a key is parked finds it parked
	defer func() {
		item.Done()
		told.Tell()
	}()
	if c.scheduled.Load() {
		// This reconcile takes the place of what is scheduled for the key, and of what was added until now.
		c.queue.Cancel(item.Key)
	}
	if c.holds.Pausing(item.Key) || (len(c.cfg.Expectations) > 0 || c.mirrors.Active()) && c.awaits(ctx, item.Key) {
		return report, false
	}
	if err := c.notLeading(ctx, h); err != nil { // here, because all of the above may have taken long
		c.putBack(item.Key)
		return report, false
	}
	c.waiters.Begin(item.Key)
	t := h.newTry()
	*t = try[K]{Context: ctx, work: ctx, key: item.Key, began: time.Since(c.started), of: c, info: Info{
		Controller: c.name, Reconcile: c.ids.Add(1),
		Attempt: item.Attempt, FirstFailure: item.FirstFailure, Reasons: item.Reasons,
	}}
	if h != nil {
		h.current.Store(t)
		defer h.current.Store(nil)
	}
	returned := false
	defer func() {
		if !returned || t.lastWord { // a Goexit, of the reconcile or of GaveUp, which nothing can stop
			crash := &wait.PanicError{Value: errGoexit, Stack: debug.Stack()}
			_, told = c.finish(t, Result{}, Panicked, crash)
		}
	}()
	result, outcome, err := c.reconcile(t)
	returned = true
	report, told = c.finish(t, result, outcome, err)
	return report, true
}

// notLeading returns why the leadership of ctx is over, or nil if it holds, or if there is none. It asks the clock: after the
// process was suspended, the deadline may have passed although no timer has fired yet. If the leadership is over, the work
// of all workers ends here, and so the worker does not come back for the next key.
func (c *Controller[K]) notLeading(ctx context.Context, h *hand[K]) error {
	if h == nil {
		return leadershipErr(ctx)
	}
	if h.of.leads == nil {
		return nil
	}
	err := h.of.leads.Err()
	if err != nil {
		h.of.stop(err)
	}
	return err
}

// reconcile calls the reconciler and classifies what comes of it. The context of t ends when the controller stops the work.
func (c *Controller[K]) reconcile(t *try[K]) (Result, Outcome, error) {
	var superseded bool
	if c.flights != nil {
		ctx, cancel := context.WithCancelCause(t.Context)
		defer cancel(nil)
		t.Context = ctx
		c.flights.Begin(t.key, cancel)
		defer func() { c.flights.End(t.key, superseded) }()
	}
	if c.cfg.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(t.Context, c.cfg.Timeout, c.tooLong)
		defer cancel()
		t.Context = limited
	}
	result, outcome, err := c.call(t)
	superseded = outcome == Superseded
	return result, outcome, err
}

// call calls the reconcile function and classifies what comes of it. It captures a panic, also one of a method of the error,
// such as that of a nil pointer that was returned as an error.
func (c *Controller[K]) call(t *try[K]) (result Result, outcome Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, outcome, err = Result{}, Panicked, &wait.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	result, err = c.callOwned(t, t.key)
	if err == nil {
		return result, Succeeded, nil
	}
	outcome, err = c.classify(t, err)
	return Result{}, outcome, err
}

// classify says what follows from an error. An error that is permanent is final, whatever has happened meanwhile. Then comes
// what ended the context, and then what the error says.
func (c *Controller[K]) classify(t *try[K], err error) (Outcome, error) {
	checkError(err)
	cause := context.Cause(t.Context)
	if cause == nil {
		cause = leadershipErr(t.Context)
	}
	switch {
	case retry.IsPermanent(err):
		return Parked, err
	case errors.Is(err, errNotOwned):
		return Canceled, err
	case cause == c.tooLong:
		return TimedOut, fmt.Errorf("%w: %w", cause, err)
	case cause == ErrSuperseded:
		return Superseded, fmt.Errorf("%w: %w", cause, err)
	case cause != nil:
		return Canceled, fmt.Errorf("%w: %w", cause, err)
	case isFenced(err):
		return Canceled, err
	case retry.IsNotYet(err):
		return Unfinished, err
	case retry.IsConflict(err) && c.streaks.Conflicts(t.key) < streak.MaxConflicts:
		return Unfinished, err
	}
	return Failed, err
}

// finish books how a reconcile has ended. It returns what to tell those who have waited for that.
func (c *Controller[K]) finish(t *try[K], result Result, outcome Outcome, err error) (Report[K], waiters.Verdict) {
	ended := time.Since(c.started)
	r := Report[K]{Key: t.key, Attempt: t.info.Attempt, Outcome: outcome, Err: err, Duration: ended - t.began}
	switch {
	case outcome == Succeeded:
		c.streaks.End(t.key)
		if t.info.Attempt > 1 {
			c.queue.Forget(t.key)
		}
		if r.Retry = result.RequeueAfter; r.Retry < 0 {
			r.Retry = 1 // the time has passed
		}
		if r.Retry > 0 {
			c.schedule(t.key, r.Retry, "")
		}
	case outcome == Unfinished:
		c.resume(t, &r)
	case outcome == Parked:
		c.park(t, &r)
	case outcome == Canceled && errors.Is(err, errNotOwned):
		c.streaks.End(t.key)
		if t.info.Attempt > 1 {
			c.queue.Forget(t.key)
		}
	case outcome == Canceled && isFenced(err):
		// Not in this Run, whose leader was replaced: it would be refused again and again until the election notices.
		c.schedule(t.key, never, "")
	case outcome == Canceled:
		c.putBack(t.key)
	case outcome.failure():
		c.retry(t, &r)
	}
	t.endCalls()
	c.counts.note(r.Outcome, r.Retry, r.Err, outcome == Panicked, r.Duration)
	c.ended.Store(int64(ended))
	c.log(t, r)
	if c.cfg.Hooks.Reconciled != nil {
		c.cfg.Hooks.Reconciled(r)
	}
	return r, c.answer(r.Key, r.Outcome, r.Err)
}

// schedule makes key, which a worker has in hand, be reconciled after d, or by the next Run if this one drains.
func (c *Controller[K]) schedule(key K, d time.Duration, reason string) {
	if !c.scheduled.Load() {
		c.scheduled.Store(true)
	}
	c.queue.AddWith(key, workqueue.AddOptions{After: c.inThisRun(d), Policy: workqueue.Replace, Reason: reason})
}

// putBack makes key, which a worker has in hand, be reconciled again at once.
func (c *Controller[K]) putBack(key K) {
	c.queue.AddWith(key, workqueue.AddOptions{After: -1}) // which Debounce does not delay
}

// inThisRun returns d, or never for what a Run that drains leaves to the next: Run brings it forward in the end.
func (c *Controller[K]) inThisRun(d time.Duration) time.Duration {
	if c.holds.Diverting() { // also what is to be at once, or a key that fails at once each time would keep Run from ending
		return never
	}
	return d
}

// resume makes the key of r, which is unfinished, be reconciled again when its error says, or parks it if it has been
// unfinished for too long.
func (c *Controller[K]) resume(t *try[K], r *Report[K]) {
	d, own := retry.Delay(r.Err)
	conflict := !retry.IsNotYet(r.Err)
	n, since := c.streaks.Unfinished(r.Key, conflict, c.cfg.Queue.MaxElapsed > 0)
	if conflict && !own {
		d = streak.ConflictDelay << (n - 1)
	}
	if limit := c.cfg.Queue.MaxElapsed; limit > 0 {
		left := limit - time.Since(earlier(since, t.info.FirstFailure))
		if left <= 0 {
			c.park(t, r)
			return
		}
		if d <= 0 || d > left { // the last attempt comes when the time is over
			d = left
		}
	}
	if r.Retry = max(d, 0); r.Retry > 0 {
		c.schedule(r.Key, r.Retry, r.Err.Error())
	}
}

// retry makes the key of r, which has failed, be tried again, unless its budget is spent.
func (c *Controller[K]) retry(t *try[K], r *Report[K]) {
	since := c.streaks.Failed(r.Key, retry.IsConflict(r.Err))
	if c.spent(t, since) || c.streaks.IsProbe(r.Key) {
		c.park(t, r)
		return
	}
	d, own := time.Duration(0), false
	if r.Outcome != Panicked {
		d, own = retry.Delay(r.Err)
	}
	if !own {
		d = max(workqueue.Backoff(c.cfg.Queue.RateLimiter, r.Key, r.Attempt), 0)
	}
	r.Retry = d
	// A negative delay is none, one of zero would be up to the queue.
	c.queue.AddWith(r.Key, workqueue.AddOptions{
		RateLimited: true, After: cmp.Or(c.inThisRun(d), -1), Policy: workqueue.Replace, Reason: r.Err.Error(),
	})
}

// log reports what nobody receives as an error.
func (c *Controller[K]) log(t *try[K], r Report[K]) {
	level, message := slog.LevelDebug, "reconciled"
	switch r.Outcome {
	case Unfinished:
		message = "reconcile unfinished"
	case Failed:
		level, message = slog.LevelWarn, "reconcile failed"
	case TimedOut:
		level, message = slog.LevelWarn, "reconcile timed out"
	case Panicked:
		level, message = slog.LevelError, "reconcile panicked"
	case Parked:
		level, message = slog.LevelError, "reconcile failed, parked"
	case Superseded:
		message = "reconcile superseded"
	case Canceled:
		switch level, message = slog.LevelInfo, "reconcile stopped, left to the next run"; {
		case errors.Is(r.Err, errNotOwned):
			level, message = slog.LevelDebug, "reconcile left to another replica"
		case isFenced(r.Err):
			level, message = slog.LevelWarn, "reconcile fenced, left to the next run"
		}
	}
	if !c.cfg.Logger.Enabled(t, level) {
		return
	}
	attrs := []slog.Attr{slog.Duration("duration", r.Duration)}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	if r.Retry > 0 || r.Outcome.failure() {
		attrs = append(attrs, slog.Duration("retry", r.Retry))
	}
	if p, ok := r.Err.(*wait.PanicError); ok { // that of the reconcile: one that it has returned is wrapped, or has been handled
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	t.logger().LogAttrs(t, level, message, attrs...)
}
