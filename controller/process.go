package controller

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/attempt"
	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Info describes a reconcile in progress. [FromContext] returns it.
type Info struct {
	// Controller is the name of the controller.
	Controller string

	// Key is the key, as fmt prints it.
	Key string

	// Reconcile is the number of this reconcile, unique within the controller.
	Reconcile uint64

	// Attempt is 1 for a key that has not failed. It grows with each failure, panic, or timeout until the key succeeds or is
	// parked.
	Attempt int

	// FirstFailure is the time at which the first of these attempts failed. It is zero in the first attempt.
	FirstFailure time.Time

	// Reasons say why the key was added, the oldest first: the errors of earlier attempts, the reasons given to [Controller.AddWith], and
	// the events, if Config.Reasons is set. They are for people. A reconcile whose result depends on them breaks when an event is merged or
	// missed.
	Reasons []workqueue.Reason
}

// FromContext describes the reconcile that ctx belongs to. It returns false outside a reconcile.
func FromContext(ctx context.Context) (Info, bool) {
	if a := attempt.From(ctx); a != nil {
		return Info(a.Info()), true
	}
	return Info{}, false
}

// Logger returns a logger with the attributes controller, key, attempt, reconcile, and, if there are any, first_failure and reasons: see
// [Info]. Outside a reconcile it returns slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if a := attempt.From(ctx); a != nil {
		return a.Log()
	}
	return slog.Default()
}

// try is one reconcile and its context, in one allocation.
type try[K comparable] struct {
	attempt.Attempt[K]

	began    time.Duration   // after Controller.started
	shared   context.Context // that of the worker, if a slot bounds the Attempt; nil without slots
	done     func()          // ends the work in the slot; nil without slots
	causes   []string        // of Hooks.Trace, and nil without it
	end      func(Report[K]) // likewise
	lastWord bool            // Config.GaveUp has been called and has not returned
}

// process reconciles the key of item and applies the outcome. It returns false if the key must wait, or belongs to another replica.
// h is the state of the worker, or nil in a step.
func (c *Controller[K]) process(ctx context.Context, item workqueue.Item[K], h *hand[K]) (report Report[K], ok bool) {
	var told waiters.Verdict // passed on after Done, so that a parked key is in Parked by then
	defer func() {
		item.Done()
		told.Tell()
	}()
	admitted, expired, crash := c.admits(item.Key)
	if expired {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "expectations expired, reconciling anyway",
			slog.String("controller", c.name), slog.Any("key", item.Key))
	}
	if !admitted && crash == nil {
		return report, false
	}
	if err := c.notLeading(ctx, h); err != nil { // last, because the checks above may have taken long
		c.agenda.Again(item.Key)
		return report, false
	}
	c.waiters.Begin(item.Key)
	t := h.newTry()
	*t = try[K]{began: time.Since(c.started), Attempt: attempt.Attempt[K]{
		Context: ctx, Work: ctx, Of: &c.attempts, Key: item.Key, Number: c.ids.Add(1),
		Ordinal: item.Attempt, FirstFailure: item.FirstFailure, Reasons: item.Reasons,
	}}
	if h != nil {
		h.current.Store(t)
		defer h.current.Store(nil)
	}
	returned := false
	defer func() {
		if !returned || t.lastWord { // a Goexit of the reconcile or of GaveUp, which cannot be recovered
			exit := &wait.PanicError{Value: errGoexit}
			if h != nil { // in a step, the goroutine is the caller's, and so is its stack
				exit.Stack = debug.Stack()
			}
			c.finish(t, &told, Result{}, Panicked, exit)
		}
		if t.done != nil {
			t.done() // after GaveUp, which writes too
		}
	}()
	if slots := c.slots.Load(); slots != nil {
		if owned, err := c.begin(t, *slots); !owned {
			returned = true
			if err == nil {
				told = c.notOwned(ctx, item)
				return report, false
			}
			report = c.finish(t, &told, Result{}, Panicked, err)
			return report, true
		}
	}
	if crash != nil { // not before, because the key may belong to another replica
		returned = true
		report = c.finish(t, &told, Result{}, Panicked, crash)
		return report, true
	}
	if h != nil && h.of.wait != nil {
		h.of.wait(t)
	}
	result, outcome, err := c.reconcile(t)
	returned = true
	report = c.finish(t, &told, result, outcome, err)
	return report, true
}

// admits is Admits of the agenda. It returns an error after a panic of Config.Expectations.
func (c *Controller[K]) admits(key K) (admitted, expired bool, err error) {
	err = wait.Call(context.Background(), func(context.Context) error {
		admitted, expired = c.agenda.Admits(key)
		return nil
	})
	return admitted, expired, err
}

// notLeading returns why the leadership of ctx is over, or nil if it holds, or if there is none. It checks the clock: after a suspend, the
// deadline may have passed although no timer has fired yet. If the leadership is over, notLeading ends the work of all workers.
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

// reconcile calls the reconcile function in a context with a timeout and classifies its result.
func (c *Controller[K]) reconcile(t *try[K]) (Result, Outcome, error) {
	var superseded bool
	if c.flights != nil {
		ctx, cancel := context.WithCancelCause(t.Context)
		defer cancel(nil)
		t.Context = ctx
		c.flights.Begin(t.Key, cancel)
		defer func() { c.flights.End(t.Key, superseded) }()
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

// call begins the trace, calls the reconcile function, and classifies its result. It recovers a panic, even one in a method of the returned
// error, such as a nil pointer in the interface.
func (c *Controller[K]) call(t *try[K]) (result Result, outcome Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, outcome, err = Result{}, Panicked, &wait.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if c.cfg.Hooks.Trace != nil {
		t.causes = c.agenda.Causes.Take(t.Key)
		t.Traced, t.end = c.cfg.Hooks.Trace(t, t.Key, t.causes)
	}
	result, err = c.reconciler(t.Given(), t.Key)
	if err == nil {
		return result, Succeeded, nil
	}
	outcome, err = c.classify(t, err)
	return Result{}, outcome, err
}

// classify returns the outcome of an error. A permanent error counts first, then the cause of the context, then the error itself.
func (c *Controller[K]) classify(t *try[K], err error) (Outcome, error) {
	checkError(err)
	cause := context.Cause(t.Context)
	if cause == nil {
		cause = term.Err(t.Context)
	}
	switch {
	case retry.IsPermanent(err):
		return Parked, err
	case cause == c.tooLong:
		return TimedOut, fmt.Errorf("%w: %w", cause, err)
	case cause == errSuperseded:
		return Superseded, fmt.Errorf("%w: %w", cause, err)
	case cause != nil && t.shared != nil && t.shared.Err() == nil:
		return Canceled, fmt.Errorf("%w: the slot was lost: %w: %w", errNotOwned, cause, err)
	case cause != nil:
		return Canceled, fmt.Errorf("%w: %w", cause, err)
	case isFenced(err):
		return Canceled, err
	case retry.IsNotYet(err):
		return Unfinished, err
	case retry.IsConflict(err) && c.streaks.Conflicts(t.Key) < streak.MaxConflicts:
		return Unfinished, err
	}
	return Failed, err
}
