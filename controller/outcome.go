package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Outcome says how one reconcile ended. Each reconcile has one, which is counted in [Stats] and reported to [Hooks].
//
//	reconcile                            outcome     its key is reconciled again   attempt  backoff  logged
//	---------                            -------     ---------------------------   -------  -------  ------
//	returns no error                     Succeeded   when it is added              1        reset    Debug
//	returns no error, RequeueAfter: d    Succeeded   after d                       1        reset    Debug
//	returns an error of retry.NotYet     Unfinished  after its delay, if positive  stays    stays    Debug
//	returns a conflict                   Unfinished  after 5 ms, 10 ms, 20 ms ...  stays    stays    Debug
//	returns another error                Failed      after the backoff             +1       grows    Warn
//	returns an error with a delay d      Failed      after d                       +1       grows    Warn
//	returns an error after the timeout   TimedOut    as after Failed               +1       grows    Warn
//	panics, or calls runtime.Goexit      Panicked    after the backoff             +1       grows    Error, with the stack
//	one of these four, budget spent      Parked      when it is added              1        reset    Error
//	is unfinished for MaxElapsed         Parked      when it is added              1        reset    Error
//	returns an error of retry.Permanent  Parked      when it is added              1        reset    Error
//	returns an error after ErrSuperseded Superseded  at once                       stays    stays    Debug
//	returns an error after a stop        Canceled    first thing by the next Run   stays    stays    Info
//	returns an error of a fenced write   Canceled    as after a stop               stays    stays    Warn
//
// Whenever a key is added, it is reconciled again at once; the delay that the reconcile before asked for counts no more. A
// Result beside an error is ignored.
//
// The first of these that applies decides about an error: it is permanent; the timeout, a newer event, or a stop has ended
// the context; the write was fenced; it is unfinished; it is a conflict. Errors that are joined are read as package retry says:
// a failure does not hide behind a wait. An error is a conflict if [retry.IsConflict] says so, such as that of a write to an
// object that has changed. The cache was behind, then, and most likely is not for long. After eight conflicts in a row the next
// ones are failures. A write was fenced if the error wraps [store.ErrFenced], or has a method Fenced() bool that returns true: a
// later leader has written, and this one must not try again. The timeout is [Config.Timeout], and only it: a context that
// reconcile itself has derived and ended makes its error Failed. What a stop is, [Controller.Run] says.
//
// The budget is MaxAttempts and MaxElapsed of Config.Queue. All keys that were given up are in one list, [Controller.Parked]. An event
// or [Controller.Add] revives one, with a whole budget; [Controller.Drop] removes it. Config.GaveUp has the last word about each,
// and a key is parked only when GaveUp has worked.
type Outcome int

const (
	Succeeded  Outcome = iota + 1 // no error: what is desired is there
	Unfinished                    // an error of retry.NotYet, or a conflict; goes on later, and is no failure
	Failed                        // another error; tried again after a backoff
	TimedOut                      // an error after Config.Timeout had passed; tried again
	Panicked                      // a panic, or a runtime.Goexit; tried again
	Parked                        // an error of retry.Permanent, or one that spends the budget; not tried again
	Superseded                    // an error after a newer event had ended the reconcile; done again at once
	Canceled                      // an error after the controller had to stop the reconcile, or a fenced write; done by the next Run
)

var outcomeNames = [...]string{
	Succeeded:  "Succeeded",
	Unfinished: "Unfinished",
	Failed:     "Failed",
	TimedOut:   "TimedOut",
	Panicked:   "Panicked",
	Parked:     "Parked",
	Superseded: "Superseded",
	Canceled:   "Canceled",
}

// String returns the name of o.
func (o Outcome) String() string {
	if o < Succeeded || o > Canceled {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// failure tells whether o counts as a failed try, of which another follows.
func (o Outcome) failure() bool {
	return o == Failed || o == TimedOut || o == Panicked
}

// Report says how one reconcile went.
type Report[K comparable] struct {
	Key     K
	Attempt int // 1, or one more than the failures of the key since it last succeeded or was parked
	Outcome Outcome

	// Err is the error, nil after Succeeded. A panic is a *wait.PanicError. After TimedOut, Superseded and
	// Canceled it also wraps the cause with which the context ended, if it has ended.
	Err error

	// Duration is the time that the reconcile took.
	Duration time.Duration

	// Retry is the time after which the key is reconciled again. It is zero for a key that is reconciled again at once, or
	// only when it is added: Outcome tells which.
	Retry time.Duration
}

// Result is what a reconcile without an error asks for: no error says that what is desired is there. Work that is not finished
// returns an error of [retry.NotYet] instead. The zero value asks for nothing: the key is reconciled again when something adds
// it. If it is added before the time that is asked for here, the result of that reconcile takes the place of this one. Beside
// an error the Result is ignored.
type Result struct {
	// RequeueAfter is the time after which the key is reconciled again, counted from the end of this reconcile. Zero
	// means never. A negative value, such as time.Until of a time that has passed, means at once.
	RequeueAfter time.Duration
}

// Hooks are functions that a [Controller] calls. Each may be nil. They are called without locks, by several workers at
// once, and should be fast: the worker waits for them.
type Hooks[K comparable] struct {
	// Reconciled is called after each reconcile, before its key can be handed out again: the key is still in flight. So one that
	// is Parked is not among Controller.Parked yet, and Drop does nothing; Add makes it come back.
	Reconciled func(Report[K])
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

// never is the time until something that is not to happen in this Run.
const never = time.Duration(1 << 62)

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
	n, since := c.streaks.Unfinished(r.Key, conflict, c.budget.Elapsed > 0)
	if conflict && !own {
		d = streak.ConflictDelay << (n - 1)
	}
	if c.budget.Elapsed > 0 {
		left := c.budget.Left(since, t.info.FirstFailure)
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
	if c.budget.Spent(t.info.Attempt, since, t.info.FirstFailure) || c.streaks.IsProbe(r.Key) {
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

// Parked returns the keys that were given up, the longest parked first: the error was one of [retry.Permanent], or the key has
// spent its budget. [Controller.Snapshot] says why. Nothing tries them again until [Controller.Add], or an event, revives them
// with a whole budget.
func (c *Controller[K]) Parked() []K { return c.queue.Parked() }

// Drop removes a key that is parked. It reports whether the key was parked.
func (c *Controller[K]) Drop(key K) bool { return c.queue.DropParked(key) }

// park gives the key of r up, unless Config.GaveUp fails.
func (c *Controller[K]) park(t *try[K], r *Report[K]) {
	if c.cfg.GaveUp != nil {
		if err := c.gaveUp(t, r.Err); err != nil {
			c.parkLater(t, r, err)
			return
		}
	}
	c.streaks.End(r.Key)
	c.queue.AddWith(r.Key, workqueue.AddOptions{Final: true, Reason: r.Err.Error()})
	r.Outcome, r.Retry = Parked, 0
}

// parkLater makes the key of r, which is to be given up, come back, because Config.GaveUp has failed. That is no attempt, so the
// budget stays spent. A key whose reconcile must not go on here is left to the next Run.
func (c *Controller[K]) parkLater(t *try[K], r *Report[K], failed error) {
	stop := context.Cause(t.work)
	if stop == nil {
		stop = term.Err(t.work)
	}
	switch fenced := isFenced(failed); {
	case stop != nil || fenced:
		if r.Outcome, r.Err = Canceled, fmt.Errorf("%w; GaveUp: %w", r.Err, failed); fenced {
			c.schedule(r.Key, never, "")
		} else {
			c.putBack(r.Key)
		}
	default:
		if !r.Outcome.failure() {
			r.Outcome = Failed
		}
		r.Err = fmt.Errorf("%w; GaveUp: %w", r.Err, failed)
		var told bool
		if r.Retry, told = retry.Delay(failed); !told {
			r.Retry = max(workqueue.Backoff(c.cfg.Queue.RateLimiter, r.Key, r.Attempt), 0)
		}
		c.schedule(r.Key, r.Retry, r.Err.Error())
	}
}

// gaveUp calls Config.GaveUp with the error that ended the last attempt, in a context that Config.Timeout limits anew.
func (c *Controller[K]) gaveUp(t *try[K], cause error) (err error) {
	if t.lastWord { // it has called runtime.Goexit
		return errGoexit
	}
	if err := term.Err(t.work); err != nil {
		return err
	}
	ctx := &try[K]{Context: t.work, key: t.key, of: c, info: t.info}
	ctx.calls.Store(t.attempt()) // its calls come after those of the reconcile
	if c.cfg.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(t.work, c.cfg.Timeout, c.tooLong)
		defer cancel()
		ctx.Context = limited
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.lastWord = true
	defer func() {
		if v := recover(); v != nil {
			t.lastWord = false
			p := &wait.PanicError{Value: v, Stack: debug.Stack()}
			t.logger().LogAttrs(ctx, slog.LevelError, "Config.GaveUp panicked", slog.Any("error", p), slog.String("stack", string(p.Stack)))
			err = p
		}
	}()
	if err = c.cfg.GaveUp(ctx, t.key, cause); err != nil {
		checkError(err)
	}
	t.lastWord = false
	return err
}
