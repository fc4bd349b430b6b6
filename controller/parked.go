package controller

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Parked returns the keys that were given up, the longest parked first: the error was one of [retry.Permanent], or the key has
// spent its budget. [Controller.Snapshot] says why. Nothing tries them again until [Controller.Add], or an event, revives them
// with a whole budget.
func (c *Controller[K]) Parked() []K { return c.queue.Parked() }

// Drop removes a key that is parked. It reports whether the key was parked.
func (c *Controller[K]) Drop(key K) bool { return c.queue.DropParked(key) }

// spent reports whether the failure of t is the last one that the budget of its key allows. Its reconciles have not finished
// since the time since, if that is known.
func (c *Controller[K]) spent(t *try[K], since time.Time) bool {
	if n := c.cfg.Queue.MaxAttempts; n > 0 && t.info.Attempt >= n {
		return true
	}
	first, limit := earlier(since, t.info.FirstFailure), c.cfg.Queue.MaxElapsed
	return limit > 0 && !first.IsZero() && time.Since(first) >= limit
}

// earlier returns the earlier of two times. The zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

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
		stop = leadershipErr(t.work)
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
	if err := leadershipErr(t.work); err != nil {
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
