package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/internal/caller"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Info is what the context of a reconcile says about it. [FromContext] returns it.
type Info struct {
	// Controller is the name of the controller.
	Controller string

	// Key is the key, as fmt prints it.
	Key string

	// Reconcile is the number of this reconcile. No other one of the controller has it.
	Reconcile uint64

	// Attempt is 1 for a key that did not fail before. It grows with each failure, panic or timeout until the key succeeds
	// or is parked.
	Attempt int

	// FirstFailure is when the first of these attempts failed, zero at the first attempt.
	FirstFailure time.Time

	// Reasons are why the key was added, the oldest first, as far as somebody said why: the errors of the attempts before,
	// what [Controller.AddWith] was told, and the events, if Config.Reasons is set. They are for people. A Reconcile whose
	// result depends on them is wrong as soon as an event is merged or missed.
	Reasons []workqueue.Reason
}

// FromContext returns what is known of the reconcile that ctx belongs to. It returns false outside of a reconcile.
func FromContext(ctx context.Context) (Info, bool) {
	if t, ok := ctx.Value(contextKey{}).(described); ok {
		return t.describe(), true
	}
	return Info{}, false
}

// Logger returns a logger that names the controller, the key, the reconcile, its attempt and, after a failure, when the
// first attempt failed and why the key was added. Outside of a reconcile it is slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if t, ok := ctx.Value(contextKey{}).(described); ok {
		return t.logger()
	}
	return slog.Default()
}

// contextKey is the key of the try in the context of a reconcile.
type contextKey struct{}

// described is a try of any key.
type described interface {
	describe() Info
	logger() *slog.Logger
}

// try is one reconcile, and its context: it is one thing so that it takes one allocation.
type try[K comparable] struct {
	context.Context
	work  context.Context // ends when the controller has to stop; Context is below it
	info  Info
	key   K
	began time.Duration // after Controller.started
	of    *Controller[K]
	calls atomic.Pointer[caller.Attempt] // by which a limiter knows the key; nil if none has asked

	lastWord bool // Config.GaveUp was called, and has not returned
}

// Value has the try in it beside the values of the context.
func (t *try[K]) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return t
	case caller.Key:
		return t.attempt()
	case written.Key:
		if !t.of.cfg.StaleReads {
			return t
		}
		return nil // nor does a reconcile around this one hear of it
	}
	return t.Context.Value(key)
}

// Wrote is called by a store whose write under the context of t was accepted: the key of t is not reconciled again before the
// caches of the controller show that.
func (t *try[K]) Wrote(clock written.Clock, version uint64) {
	t.of.mirrors.Wrote(t.key, clock, version)
}

// attempt returns that by which a limiter knows the attempt.
func (t *try[K]) attempt() *caller.Attempt {
	if t.calls.Load() == nil {
		t.calls.CompareAndSwap(nil, &caller.Attempt{ID: caller.ID{Controller: t.of, Key: t.key}})
	}
	return t.calls.Load()
}

// endCalls tells the limiters that the attempt calls no more.
func (t *try[K]) endCalls() {
	if a := t.calls.Load(); a != nil {
		a.End()
	}
}

func (t *try[K]) describe() Info {
	info := t.info
	info.Key = fmt.Sprint(t.key)
	return info
}

func (t *try[K]) logger() *slog.Logger {
	attrs := []any{"controller", t.info.Controller, "key", t.key, "attempt", t.info.Attempt, "reconcile", t.info.Reconcile}
	if !t.info.FirstFailure.IsZero() {
		attrs = append(attrs, "first_failure", t.info.FirstFailure)
	}
	if len(t.info.Reasons) > 0 {
		texts := make([]string, len(t.info.Reasons))
		for i, r := range t.info.Reasons {
			texts[i] = r.Text
		}
		attrs = append(attrs, "reasons", texts)
	}
	return t.of.cfg.Logger.With(attrs...)
}

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
		return term.Err(ctx)
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
		cause = term.Err(t.Context)
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
