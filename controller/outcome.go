package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/tally"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Outcome is how a reconcile ended. [Stats] counts the outcome of each reconcile, and [Hooks] report it.
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
//	returns an error, superseded         Superseded  at once                       stays    stays    Debug
//	returns an error after a stop        Canceled    at once, by the next Run      stays    stays    Info
//	returns an error of a fenced write   Canceled    as after a stop               stays    stays    Warn
//
// A key that is added is reconciled again at once, even if its last reconcile requested a delay. If reconcile returns an error, its Result
// is ignored.
//
// The first of these that applies to an error decides: it is permanent; the timeout, a newer event, or a stop has ended the context; a
// write was fenced; it is unfinished; it is a conflict. Package retry says how joined errors are classified: a failure joined with a wait
// is a failure.
//
//   - Conflict: [retry.IsConflict] returns true, as for a write to an object that has changed since it was read. The cache was
//     stale, and will most likely catch up soon. A conflict with a delay ([retry.After]) comes back after that delay. After eight
//     conflicts in a row, further ones are failures.
//   - Fenced write: the error wraps [store.ErrFenced], or an error with a method Fenced() bool that returns true. A later leader
//     has written, and this one must not retry.
//   - Timeout: only [Config.Timeout]. If a context that reconcile derived itself ends, the outcome is Failed.
//   - Stop: see [Controller.Run].
//
// The budget is MaxAttempts and MaxElapsed of Config.Queue. With MaxElapsed, no unfinished key waits past that time: its last attempt comes
// when the time is over. [Controller.Parked] returns all parked keys. An event or [Controller.Add] revives one with a full budget;
// [Controller.Drop] removes it. A key is parked only after Config.GaveUp, if set, has succeeded.
type Outcome int

const (
	Succeeded  Outcome = iota + 1 // no error: the desired state is reached
	Unfinished                    // an error of retry.NotYet, or a conflict; continues later, and is no failure
	Failed                        // another error; retried after a backoff
	TimedOut                      // an error after Config.Timeout; retried
	Panicked                      // a panic, or a runtime.Goexit; retried
	Parked                        // an error of retry.Permanent, or one that spends the budget; not retried
	Superseded                    // an error after a newer event has canceled the reconcile; repeated at once
	Canceled                      // an error after a stop has ended the context, or a fenced write; repeated by the next Run
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

// failure reports whether o is a failed attempt that is retried.
func (o Outcome) failure() bool {
	return o == Failed || o == TimedOut || o == Panicked
}

// Report describes one reconcile.
type Report[K comparable] struct {
	Key     K
	Attempt int // 1, plus the failures of the key since it last succeeded or was parked
	Outcome Outcome

	// Err is the error, nil after Succeeded. A panic is a *wait.PanicError. After TimedOut, Superseded, and Canceled, Err also
	// wraps the cause of the context, if that has ended.
	Err error

	// Duration is the time that the reconcile took.
	Duration time.Duration

	// Retry is the time after which the key is reconciled again. It is zero if the key is reconciled again at once, or only
	// when it is added: Outcome distinguishes the two. After a negative RequeueAfter it is a nanosecond.
	Retry time.Duration
}

// Result is what a successful reconcile requests. A reconcile that has not reached the desired state yet returns an error of [retry.NotYet]
// instead. The zero value requests nothing: the key is reconciled again when it is added. If the key is added before RequeueAfter has
// passed, the result of that reconcile replaces this one. If reconcile returns an error, its Result is ignored.
type Result struct {
	// RequeueAfter is the time after which the key is reconciled again, counted from the end of this reconcile. Zero
	// means never. A negative value, such as time.Until of a time that has passed, means at once.
	RequeueAfter time.Duration
}

// Hooks are functions that a [Controller] calls. Each may be nil. Workers call them concurrently and without locks, and wait
// for them, so they should be fast. A panic of Trace counts as a panic of the reconcile, which then does not begin. A panic of Reconciled,
// or of the function that Trace returned, is logged and changes nothing.
type Hooks[K comparable] struct {
	// Reconciled is called after each reconcile, while its key is still in flight. So a key with the outcome Parked is not in
	// Controller.Parked yet, and Drop does nothing; Add revives it.
	Reconciled func(Report[K])

	// Trace is called before each reconcile, for a span around it. causes are the trace contexts of the adds that led to the reconcile, the
	// oldest first: those of AddOptions.Trace, and of objects with a method TraceContext() string, such as a [store.Object], that a change
	// has added. They are kept until a reconcile of the key succeeds or parks it. Of more than eight, the oldest and the seven newest are
	// kept. Initial lists and resyncs have none.
	//
	// The reconcile function and Config.GaveUp get the returned context, which must be ctx or derived from it. [FromContext]
	// describes the reconcile. If the returned function is not nil, it is called when the outcome is known, before Reconciled.
	Trace func(ctx context.Context, key K, causes []string) (context.Context, func(Report[K]))
}

// finish applies the consequences of an outcome. It sets told to the verdict for WaitReconciled, before a hook can end the goroutine.
func (c *Controller[K]) finish(t *try[K], told *waiters.Verdict, result Result, outcome Outcome, err error) Report[K] {
	ended := time.Since(c.started)
	r := Report[K]{Key: t.Key, Attempt: t.Ordinal, Outcome: outcome, Err: err, Duration: ended - t.began}
	switch {
	case outcome == Succeeded:
		c.forget(t.Key, t.Ordinal)
		if r.Retry = result.RequeueAfter; r.Retry < 0 {
			r.Retry = 1 // the time has passed
		}
		if r.Retry > 0 {
			c.agenda.After(t.Key, r.Retry, "")
		}
	case outcome == Unfinished:
		c.resume(t, &r)
	case outcome == Parked:
		c.park(t, &r)
	case outcome == Canceled && errors.Is(err, errNotOwned):
		c.forget(t.Key, t.Ordinal)
	case outcome == Canceled && isFenced(err):
		// Not in this Run, whose leader was replaced: the writes would be rejected repeatedly until the election notices.
		c.agenda.NextRun(t.Key)
	case outcome == Canceled:
		c.agenda.Again(t.Key)
	case outcome.failure():
		c.retry(t, &r)
	}
	*told = c.answer(r.Key, r.Outcome, r.Err)
	t.End()
	c.tally.Note(tally.Reconcile{
		Outcome: int(r.Outcome), Requeued: r.Outcome == Succeeded && r.Retry > 0,
		Panicked: outcome == Panicked, // the reconcile function, and not GaveUp
		Fenced:   r.Err != nil && isFenced(r.Err), Took: r.Duration,
	})
	c.ended.Store(int64(ended))
	c.log(t, r)
	if c.cfg.Hooks.Trace != nil {
		c.endTrace(t, r)
	}
	c.tell(t, "Hooks.Reconciled", c.cfg.Hooks.Reconciled, r)
	return r
}

// endTrace ends the trace that Hooks.Trace began. If the key will be reconciled again, that reconcile has the causes of this one too.
func (c *Controller[K]) endTrace(t *try[K], r Report[K]) {
	switch {
	case r.Outcome == Succeeded, r.Outcome == Parked, errors.Is(r.Err, errNotOwned):
	default:
		c.agenda.Causes.Restore(t.Key, t.causes)
	}
	c.tell(t, "the function that Hooks.Trace returned", t.end, r)
}

// tell passes r to a hook, unless it is nil. If the hook panics, the outcome is already in force, so tell only logs the panic.
func (c *Controller[K]) tell(t *try[K], name string, hook func(Report[K]), r Report[K]) {
	if hook == nil {
		return
	}
	err := wait.Call(t, func(context.Context) error {
		hook(r)
		return nil
	})
	if p, ok := err.(*wait.PanicError); ok {
		t.Log().LogAttrs(t, slog.LevelError, "a hook panicked", slog.String("hook", name),
			slog.Any("error", p), slog.String("stack", string(p.Stack)))
	}
}

// resume schedules the key of r, which is unfinished, at the time that its error requests. It parks a key that has been unfinished for too
// long.
func (c *Controller[K]) resume(t *try[K], r *Report[K]) {
	d, own := retry.Delay(r.Err)
	conflict := !retry.IsNotYet(r.Err)
	n, since := c.streaks.Unfinished(r.Key, conflict, c.budget.Elapsed > 0)
	if conflict && !own {
		d = streak.ConflictDelay << (n - 1)
	}
	if c.budget.Elapsed > 0 {
		left := c.budget.Left(since, t.FirstFailure)
		if left <= 0 {
			c.park(t, r)
			return
		}
		if d <= 0 || d > left { // the last attempt comes when the time is over
			d = left
		}
	}
	if r.Retry = max(d, 0); r.Retry > 0 {
		c.agenda.After(r.Key, r.Retry, r.Err.Error())
	}
}

// retry schedules the next attempt of the key of r, which has failed. It parks a key whose budget is spent.
func (c *Controller[K]) retry(t *try[K], r *Report[K]) {
	since := c.streaks.Failed(r.Key, retry.IsConflict(r.Err))
	if c.budget.Spent(t.Ordinal, since, t.FirstFailure) || c.streaks.IsProbe(r.Key) {
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
	c.agenda.Retry(r.Key, d, r.Err.Error())
}

// log logs the reconcile, since no caller receives its error.
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
	p, ok := r.Err.(*wait.PanicError) // a panic of the reconcile, not one that it returned as an error
	if ok || r.Outcome == Panicked && errors.As(r.Err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	t.Log().LogAttrs(t, level, message, attrs...)
}

// Parked returns the parked keys, the longest parked first: the error was one of [retry.Permanent], or the key has spent its budget.
// [Controller.Snapshot] returns the reasons. A parked key is not retried until [Controller.Add] or an event revives it with a full budget.
func (c *Controller[K]) Parked() []K { return c.queue.Parked() }

// Drop removes a parked key. It reports whether the key was parked.
func (c *Controller[K]) Drop(key K) bool { return c.queue.DropParked(key) }

// park parks the key of r, unless Config.GaveUp fails.
func (c *Controller[K]) park(t *try[K], r *Report[K]) {
	if c.cfg.GaveUp != nil {
		if err := c.gaveUp(t, r.Err); err != nil {
			c.parkLater(t, r, err)
			return
		}
	}
	c.streaks.Parked(r.Key, c.agenda.Of(r.Key).Dirty)
	c.agenda.Park(r.Key, r.Err.Error())
	r.Outcome, r.Retry = Parked, 0
}

// parkLater schedules the key of r again because Config.GaveUp has failed. That does not count as an attempt, so the budget stays spent.
// After a stop or a fenced write, the key is left to the next Run.
func (c *Controller[K]) parkLater(t *try[K], r *Report[K], failed error) {
	stop := context.Cause(t.Work)
	if stop == nil {
		stop = term.Err(t.Work)
	}
	switch fenced := isFenced(failed); {
	case stop != nil || fenced:
		if r.Outcome, r.Err = Canceled, fmt.Errorf("%w; GaveUp: %w", r.Err, failed); fenced {
			c.agenda.NextRun(r.Key)
		} else {
			c.agenda.Again(r.Key)
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
		c.agenda.After(r.Key, r.Retry, r.Err.Error())
	}
}

// gaveUp calls Config.GaveUp with the error that ended the last attempt, in a context with a new Config.Timeout.
func (c *Controller[K]) gaveUp(t *try[K], cause error) (err error) {
	if t.lastWord { // GaveUp has called runtime.Goexit
		return errGoexit
	}
	if err := term.Err(t.Work); err != nil {
		return err
	}
	ctx := t.LastWord()
	if c.cfg.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx.Context, c.cfg.Timeout, c.tooLong)
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
			t.Log().LogAttrs(ctx, slog.LevelError, "Config.GaveUp panicked", slog.Any("error", p), slog.String("stack", string(p.Stack)))
			err = p
		}
	}()
	if err = c.cfg.GaveUp(ctx, t.Key, cause); err != nil {
		checkError(err)
	}
	t.lastWord = false
	return err
}
