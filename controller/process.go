package controller

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// process reconciles the key of item and applies the outcome. It returns false, and gives the key back, if the key must wait, if it belongs to
// another replica, or if the leadership is over. w is the worker, or nil in a step.
func (c *Controller[K]) process(ctx context.Context, item workqueue.Item[K], w *worker[K]) (report Report[K], ok bool) {
	began := time.Since(c.started)
	if w != nil {
		w.since.Store(max(1, int64(began)))
		defer w.since.Store(0)
	}
	attempted := false
	defer func() {
		if !attempted {
			item.Skip() // it costs nothing
		}
	}()
	admitted, reasons, expired, err := c.admits(item)
	c.warn(ctx, item.Key, expired)
	switch {
	case err != nil:
		reasons = item.Reasons
	case !admitted:
		return report, false
	}
	if c.stopUnlessLeading(ctx, w) != nil { // last, because the checks above may have taken long
		c.pending.makeReady(item.Key)
		return report, false
	}
	c.waiters.begin(item.Key)
	a := w.newAttempt()
	*a = attempt[K]{
		Context: ctx, work: ctx, of: c, key: item.Key, number: c.ids.Add(1),
		ordinal: item.Attempt, firstFailure: item.FirstFailure, reasons: reasons, began: began,
	}
	attempted = true
	return c.try(a, item, err, w)
}

// try makes the attempt a, unless the key belongs to another replica, and gives the key back. If refused is not nil, that is the result:
// Config.Expectations have panicked.
func (c *Controller[K]) try(a *attempt[K], item workqueue.Item[K], refused error, w *worker[K]) (report Report[K], owned bool) {
	var answer waitResult
	owned = true
	defer func() {
		if owned {
			c.caches.startTimers(a.key) // after the last write, and before the key can be taken again
			c.pending.settle(a.key)
			item.Done()
		} else {
			item.Skip()
		}
		answer.deliver() // after Done, so that a parked key is in Parked by then
		c.serve(a.key)
	}()
	if w != nil {
		w.current.Store(a)
		defer w.current.Store(nil)
	}
	returned := false
	defer func() {
		if !returned || a.givingUp { // a Goexit of the reconcile or of GaveUp, which cannot be recovered
			exit := &wait.PanicError{Value: errGoexit}
			if w != nil { // in a step, the goroutine is the caller's, and so is its stack
				exit.Stack = debug.Stack()
			}
			c.finish(a, &answer, Result{}, Panicked, exit)
		}
		if a.done != nil {
			a.done() // after GaveUp, which writes too
		}
	}()
	if slots := c.slots.Load(); slots != nil {
		var err error
		if owned, err = c.enterSlot(a, *slots); !owned && err == nil {
			returned = true
			answer = c.notOwned(a.work, item)
			return report, false
		} else if err != nil {
			owned, refused = true, err
		}
	}
	var result Result
	outcome, err := Panicked, refused // known only now, because the key may belong to another replica
	if refused == nil {
		if w != nil && w.of.pace != nil {
			w.of.pace(a)
		}
		result, outcome, err = c.reconcile(a)
	}
	returned = true
	return c.finish(a, &answer, result, outcome, err), true
}

// warn logs that key is reconciled although its expectations are not met.
func (c *Controller[K]) warn(ctx context.Context, key K, expired []expiredHold) {
	for _, e := range expired {
		attrs := []slog.Attr{slog.String("controller", c.name), slog.Any("key", key), slog.String("reason", e.reason)}
		if e.version != 0 {
			attrs = append(attrs, slog.Uint64("version", e.version))
		}
		attrs = append(attrs, slog.Duration("waited", e.waited))
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "expectations expired, reconciling anyway", attrs...)
	}
}

// admits is that of pending. It returns an error after a panic of Config.Expectations.
func (c *Controller[K]) admits(item workqueue.Item[K]) (admitted bool, reasons []workqueue.Reason, expired []expiredHold, err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		admitted, reasons, expired = c.pending.admits(item)
		return nil
	})
	return admitted, reasons, expired, err
}

// stopUnlessLeading returns why the leadership of ctx is over, and ends the work of all workers then. It returns nil if the leadership holds,
// or if there is none. It checks the clock: after a suspend, the deadline may have passed although no timer has fired yet.
func (c *Controller[K]) stopUnlessLeading(ctx context.Context, w *worker[K]) error {
	if w == nil {
		return leadershipErr(ctx)
	}
	if w.of.leads == nil {
		return nil
	}
	err := w.of.leads.Err()
	if err != nil {
		w.of.stop(err)
	}
	return err
}

// reconcile calls the reconcile function in a context with a timeout and classifies its result.
func (c *Controller[K]) reconcile(a *attempt[K]) (Result, Outcome, error) {
	var superseded bool
	c.own.begin(a.key)
	if c.cancels != nil {
		ctx, cancel := context.WithCancelCause(a.Context)
		defer cancel(nil)
		a.Context = ctx
		c.cancels.begin(a.key, cancel)
		defer func() { c.cancels.end(a.key, superseded) }()
	}
	if c.cfg.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(a.Context, c.cfg.Timeout, c.tooLong)
		defer cancel()
		a.Context = limited
	}
	result, outcome, err := c.call(a)
	superseded = outcome == Superseded
	return result, outcome, err
}

// call begins the trace, calls the reconcile function, and classifies its result. It recovers a panic, even one in a method of the returned
// error, such as a nil pointer in the interface.
func (c *Controller[K]) call(a *attempt[K]) (result Result, outcome Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, outcome, err = Result{}, Panicked, &wait.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if c.cfg.Hooks.Trace != nil {
		a.causes = c.pending.causes.take(a.key)
		a.traced, a.end = c.cfg.Hooks.Trace(a, a.key, a.causes)
	}
	result, err = c.reconciler(a.given(), a.key)
	if err == nil {
		return result, Succeeded, nil
	}
	outcome, err = c.classify(a, err)
	return Result{}, outcome, err
}

// classify returns the outcome of an error, as package outcome decides. classify finds out what has ended the context.
func (c *Controller[K]) classify(a *attempt[K], err error) (Outcome, error) {
	checkError(err)
	cause := context.Cause(a.Context)
	if cause == nil {
		cause = leadershipErr(a.Context)
	}
	timedOut := cause == c.tooLong
	state := c.unfinished.of(a.key)
	switch kind := outcome.Of(err, cause != nil && !timedOut, state.TooManyConflicts()); {
	case kind == outcome.Stopped && cause == errSuperseded:
		return Superseded, fmt.Errorf("%w: %w", cause, err)
	case kind == outcome.Stopped && a.shared != nil && a.shared.Err() == nil:
		return Canceled, fmt.Errorf("%w: the slot was lost: %w: %w", errNotOwned, cause, err)
	case kind == outcome.Stopped:
		return Canceled, fmt.Errorf("%w: %w", cause, err)
	case kind == outcome.Fenced:
		return Canceled, err
	case kind == outcome.Permanent:
		return Parked, err
	case timedOut:
		return TimedOut, fmt.Errorf("%w: %w", cause, err)
	case kind.Unfinished():
		return Unfinished, err
	}
	return Failed, err
}
