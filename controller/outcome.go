package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
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
//	fails before its retry was due       Failed      when that retry is due        stays    stays    Warn
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
// If the key has failed, and an event brings the next attempt before the retry is due, a failure of that attempt does not count: the retry
// comes at its time, unless the error has a delay of its own, and neither the backoff grows nor is the budget of attempts used up. The same
// holds for conflicts. So when an outage of length L is over, the key is tried again within L and the first delay, and the time that its
// attempts take, at any rate of events.
//
// The first of these that applies to an error decides: a newer event or a stop has ended the context; a write was fenced; the error is
// permanent; the timeout has ended the context; the error is unfinished; it is a conflict. So even a permanent error does not park a key
// after a stop, which is not the fault of the object: the next Run finds out. A timeout is no stop. Package retry says how joined errors are
// classified: a failure joined with a wait or a conflict is a failure.
//
//   - Conflict: [retry.IsConflict] returns true, and no failure is joined, as for a write to an object that has changed since it was read.
//     The cache was stale, and will most likely catch up soon. A conflict with a delay ([retry.After]) comes back after that delay. After
//     eight conflicts in a row, further ones are failures. A conflict in an attempt that an event brings in the meantime does not count.
//   - Fenced write: the error wraps [store.ErrFenced], or an error with a method Fenced() bool that returns true. A later leader
//     has written, and this one must not retry.
//   - Timeout: only [Config.Timeout]. If a context that reconcile derived itself ends, the outcome is Failed.
//   - Stop: see [Controller.Run].
//
// These rules apply to [workqueue.Queue.Run] too, except for a Result, a timeout, and a newer event, which a queue does not have. There, a
// success is not logged, and a panic is a failure.
//
// The budget is MaxAttempts and MaxElapsed of Config.Queue. The attempts of a key are counted until it succeeds or is parked, however long it
// is paused, held, or unfinished in between, and from one Run to the next. With MaxElapsed, no unfinished key waits past that time: its last attempt comes
// when the time is over. [Controller.Parked] returns all parked keys. An event or [Controller.Add] revives one with a full budget;
// Forget of an [Inspector] removes it. A key is parked only after Config.GaveUp, if set, has succeeded.
//
// A write of a key's own reconcile is no news to it: after Failed, TimedOut, Panicked, and Parked, the events of writes to a store.Store under
// the context of the reconcile, or of GaveUp, neither end the backoff nor revive the key. So a status that says what has failed costs no
// attempt. A change by another program that a list has merged with own writes counts. After another outcome, own writes add the key as any
// change does; [Watch.When] filters them. The writes of [Handles], and those to a source that is not a store, do not count as own: use When.
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
	Attempt int // 1, plus the failures of the key that count since it last succeeded or was parked
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
	// Controller.Parked yet; Add revives it.
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

// finish applies the consequences of an outcome, which may change it: from the switch on, that of r counts. finish sets answer to the result for WaitReconciled, before a hook can end the goroutine.
func (c *Controller[K]) finish(a *attempt[K], answer *waitResult, result Result, outcome Outcome, err error) Report[K] {
	ended := time.Since(c.started)
	r := Report[K]{Key: a.key, Attempt: a.ordinal, Outcome: outcome, Err: err, Duration: ended - a.began}
	switch {
	case outcome == Succeeded:
		c.forget(a.key, a.ordinal)
		if r.Retry = result.RequeueAfter; r.Retry < 0 {
			r.Retry = 1 // the time has passed
		}
		if r.Retry > 0 {
			c.pending.after(a.key, r.Retry, "")
		}
	case outcome == Unfinished:
		c.scheduleUnfinished(a, &r)
	case outcome == Parked:
		c.park(a, &r)
	case outcome == Canceled && errors.Is(err, errNotOwned):
		c.forget(a.key, a.ordinal)
	case outcome == Canceled && isFenced(err):
		// Not in this Run, whose leader was replaced: the writes would be rejected repeatedly until the election notices.
		c.pending.nextRun(a.key)
	case outcome == Canceled:
		c.stopped(a)
	case outcome.failure():
		c.retry(a, &r)
	}
	*answer = c.answer(r.Key, r.Outcome, r.Err)
	a.close()
	c.own.end(a.key, r.Outcome == Parked || r.Outcome.failure())
	panicked := outcome == Panicked // the reconcile function, and not GaveUp
	c.counters.note(r.Outcome, r.Outcome == Succeeded && r.Retry > 0, panicked, r.Err != nil && isFenced(r.Err), r.Duration)
	c.history.add(r, c.started.Add(ended))
	c.ended.Store(int64(ended))
	c.log(a, r)
	if c.cfg.Hooks.Trace != nil {
		c.endTrace(a, r)
	}
	c.callHook(a, "Hooks.Reconciled", c.cfg.Hooks.Reconciled, r)
	return r
}

// endTrace ends the trace that Hooks.Trace began. If the key will be reconciled again, that reconcile has the causes of this one too.
func (c *Controller[K]) endTrace(a *attempt[K], r Report[K]) {
	switch {
	case r.Outcome == Succeeded, r.Outcome == Parked, errors.Is(r.Err, errNotOwned):
	default:
		c.pending.causes.restore(a.key, a.causes)
	}
	c.callHook(a, "the function that Hooks.Trace returned", a.end, r)
}

// callHook passes r to a hook, unless it is nil. If the hook panics, the outcome is already in force, so callHook only logs the panic.
func (c *Controller[K]) callHook(a *attempt[K], name string, hook func(Report[K]), r Report[K]) {
	if hook == nil {
		return
	}
	err := wait.Call(a, func(context.Context) error {
		hook(r)
		return nil
	})
	if p, ok := err.(*wait.PanicError); ok {
		a.logger().LogAttrs(a, slog.LevelError, "a hook panicked", slog.String("hook", name),
			slog.Any("error", p), slog.String("stack", string(p.Stack)))
	}
}

// scheduleUnfinished schedules the key of r, which is unfinished, at the time that its error requests. It parks a key that has been unfinished for too
// long.
func (c *Controller[K]) scheduleUnfinished(a *attempt[K], r *Report[K]) {
	kind := outcome.Conflict
	if retry.IsNotYet(r.Err) {
		kind = outcome.NotYet
	}
	delay, _ := retry.Delay(r.Err)
	ok := false
	c.unfinished.edit(r.Key, func(state *unfinishedKey) {
		r.Retry, ok = state.Continue(kind, delay, c.budget, a.firstFailure)
	})
	switch {
	case !ok:
		c.park(a, r)
	case r.Retry > 0:
		c.pending.after(r.Key, r.Retry, r.Err.Error())
	}
}

// retry schedules the next attempt of the key of r, which has failed. It parks a key whose budget is spent.
func (c *Controller[K]) retry(a *attempt[K], r *Report[K]) {
	conflict := r.Outcome == Failed && outcome.Of(r.Err, false, false) == outcome.Conflict // one too many in a row
	state := c.unfinished.failed(r.Key, conflict)
	failures, untilRetry := a.ordinal, c.pending.untilRetry(r.Key)
	if untilRetry > 0 { // an event brought this attempt, so it does not count
		failures--
	}
	if state.parkFailed || c.budget.Spent(failures, a.firstFailure, state.Unfinished) {
		c.park(a, r)
		return
	}
	d, given := time.Duration(0), false
	if r.Outcome != Panicked {
		d, given = retry.Delay(r.Err)
	}
	if !given {
		d = c.backoff(a, failures)
		if untilRetry > 0 {
			d = min(d, untilRetry)
		}
	}
	r.Retry = d
	c.pending.retry(r.Key, d, r.Err.Error())
}

// backoff returns how long the key of a waits after this number of failures. If the limiter panics, the wait is that of the default limiter.
func (c *Controller[K]) backoff(a *attempt[K], failures int) (d time.Duration) {
	err := wait.Call(a, func(context.Context) error {
		d = workqueue.Backoff(c.cfg.Queue.RateLimiter, a.key, failures)
		return nil
	})
	if p, ok := err.(*wait.PanicError); ok {
		a.logger().LogAttrs(a, slog.LevelError, "Config.Queue.RateLimiter panicked", slog.Any("error", p), slog.String("stack", string(p.Stack)))
		d = workqueue.Backoff[K](nil, a.key, failures)
	}
	return max(d, 0)
}

// log logs the reconcile, since no caller receives its error.
func (c *Controller[K]) log(a *attempt[K], r Report[K]) {
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
	if !c.cfg.Logger.Enabled(a, level) {
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
	a.logger().LogAttrs(a, level, message, attrs...)
}

// Parked returns the parked keys, the longest parked first: the error was one of [retry.Permanent], or the key has spent its budget.
// [Controller.Inspect] shows the reasons. A parked key is not retried until [Controller.Add] or an event revives it with a full budget. An
// event of its own writes does not: see [Outcome].
func (c *Controller[K]) Parked() []K { return c.queue.Parked() }

// park parks the key of r, unless Config.GaveUp fails.
func (c *Controller[K]) park(a *attempt[K], r *Report[K]) {
	if c.cfg.GaveUp != nil {
		if err := c.callGaveUp(a, r.Err); err != nil {
			c.parkLater(a, r, err)
			return
		}
	}
	c.unfinished.end(r.Key)
	c.pending.park(r.Key, r.Err.Error())
	r.Outcome, r.Retry = Parked, 0
}

// parkLater schedules the key of r again because Config.GaveUp has failed. That does not count as an attempt, so the budget stays spent, unless
// an event has come in the meantime. After a stop or a fenced write, the key is left to the next Run.
func (c *Controller[K]) parkLater(a *attempt[K], r *Report[K], failed error) {
	c.unfinished.parkFailed(r.Key)
	if info, _ := c.queue.Info(r.Key); info.Dirty {
		c.revive(r.Key)
	}
	stop := context.Cause(a.work)
	if stop == nil {
		stop = leadershipErr(a.work)
	}
	switch fenced := isFenced(failed); {
	case stop != nil || fenced:
		if r.Outcome, r.Err = Canceled, fmt.Errorf("%w; GaveUp: %w", r.Err, failed); fenced {
			c.pending.nextRun(r.Key)
		} else {
			c.stopped(a)
		}
	default:
		if !r.Outcome.failure() {
			r.Outcome = Failed
		}
		r.Err = fmt.Errorf("%w; GaveUp: %w", r.Err, failed)
		var given bool
		if r.Retry, given = retry.Delay(failed); !given {
			r.Retry = c.backoff(a, r.Attempt)
		}
		c.pending.after(r.Key, r.Retry, r.Err.Error())
	}
}

// callGaveUp calls Config.GaveUp with the error that ended the last attempt, in a context with a new Config.Timeout.
func (c *Controller[K]) callGaveUp(a *attempt[K], cause error) (err error) {
	if a.givingUp { // GaveUp has called runtime.Goexit
		return errGoexit
	}
	if err := leadershipErr(a.work); err != nil {
		return err
	}
	ctx := a.forGaveUp()
	if c.cfg.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx.Context, c.cfg.Timeout, c.tooLong)
		defer cancel()
		ctx.Context = limited
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.givingUp = true
	defer func() {
		if v := recover(); v != nil {
			a.givingUp = false
			p := &wait.PanicError{Value: v, Stack: debug.Stack()}
			a.logger().LogAttrs(ctx, slog.LevelError, "Config.GaveUp panicked", slog.Any("error", p), slog.String("stack", string(p.Stack)))
			err = p
		}
	}()
	if err = c.cfg.GaveUp(ctx, a.key, cause); err != nil {
		checkError(err)
	}
	a.givingUp = false
	return err
}
