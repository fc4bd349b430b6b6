package controller

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// process reconciles key, which q has handed out, and decides what becomes of it.
func (c *Controller[K]) process(ctx context.Context, q *workqueue.Queue[K], key K) Report[K] {
	defer q.Done(key)
	a := &attempt{
		number:     c.ledger.begin(key),
		controller: c.name,
		key:        key,
		id:         c.ids.Add(1),
		logger:     c.cfg.Logger,
	}
	ctx = context.WithValue(ctx, contextKey{}, a)

	report := Report[K]{Key: key, Attempt: a.number}
	start := time.Now()
	result, outcome, err := c.reconcile(ctx, key)
	report.Duration = time.Since(start)
	report.Outcome, report.Err = outcome, err
	report.Retry = c.delay(key, result, outcome, err)

	c.settle(q, report)
	c.log(ctx, report)
	if c.cfg.Hooks.Reconciled != nil {
		c.cfg.Hooks.Reconciled(report)
	}
	return report
}

// reconcile calls the reconciler and classifies what comes of it. ctx ends when the controller stops the work.
func (c *Controller[K]) reconcile(ctx context.Context, key K) (Result, Outcome, error) {
	limited := ctx
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, c.cfg.Timeout, c.tooLong)
		defer cancel()
	}

	var result Result
	returned := false
	err := wait.Call(limited, func(ctx context.Context) (err error) {
		result, err = c.reconciler.Reconcile(ctx, key)
		returned = true
		return err
	})

	switch cause := context.Cause(limited); {
	case !returned:
		return Result{}, Panicked, err
	case err == nil && result.RequeueAfter > 0:
		return result, Requeued, nil
	case err == nil:
		return result, Succeeded, nil
	case isTerminal(err):
		return Result{}, GivenUp, err
	case cause == c.tooLong:
		return Result{}, TimedOut, fmt.Errorf("%w: %w", cause, err)
	case cause != nil:
		return Result{}, Canceled, fmt.Errorf("%w: %w", cause, err)
	default:
		return Result{}, Failed, err
	}
}

// delay returns the time after which key is tried again, and keeps the count of the rate limiter.
func (c *Controller[K]) delay(key K, result Result, outcome Outcome, err error) time.Duration {
	switch outcome {
	case Requeued:
		c.cfg.RateLimiter.Forget(key)
		return result.RequeueAfter
	case Succeeded, GivenUp:
		c.cfg.RateLimiter.Forget(key)
		return 0
	case Canceled:
		return 0
	case Failed, TimedOut:
		if d, ok := retryDelay(err); ok {
			return d
		}
	}
	return max(c.cfg.RateLimiter.When(key), 0)
}

// settle books the report and gives the key back to q if it is tried again. A queue that is shut down does not take it:
// then the ledger alone has it, for the next Run.
func (c *Controller[K]) settle(q *workqueue.Queue[K], r Report[K]) {
	c.ledger.settle(r.Key, r.Outcome, r.Retry)
	if r.Outcome.retried() {
		q.AddRateLimited(r.Key) // after the delay that was settled; an attempt before that takes its place
	}
}

// log reports what nobody receives as an error.
func (c *Controller[K]) log(ctx context.Context, r Report[K]) {
	level, message := slog.LevelDebug, "reconciled"
	switch r.Outcome {
	case Failed:
		level, message = slog.LevelWarn, "reconcile failed"
	case TimedOut:
		level, message = slog.LevelWarn, "reconcile timed out"
	case Panicked:
		level, message = slog.LevelError, "reconcile panicked"
	case GivenUp:
		level, message = slog.LevelError, "reconcile failed, not tried again"
	case Canceled:
		level, message = slog.LevelInfo, "reconcile stopped, left to the next run"
	}
	if !c.cfg.Logger.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.Duration("duration", r.Duration)}
	if r.Err != nil {
		attrs = append(attrs, slog.Any("error", r.Err))
	}
	if r.Outcome.retried() && r.Outcome != Canceled {
		attrs = append(attrs, slog.Duration("retry", r.Retry))
	}
	if p, ok := r.Err.(*wait.PanicError); ok && r.Outcome == Panicked {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	Logger(ctx).LogAttrs(ctx, level, message, attrs...)
}
