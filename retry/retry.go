package retry

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-go/setpoint/wait"
)

// Do calls fn until it succeeds, its error is final, the steps of cfg.Backoff are used up, or ctx ends. It returns
//
//   - nil if fn returned nil, even if ctx has ended in the meantime;
//   - the error of fn itself, if it is [Permanent] or not Config.Retriable, and not ctx.Err();
//   - an error that wraps [ErrGaveUp] and the error of the last attempt, if no steps are left; if that error is one of [NotYet],
//     so is the result, with the same delay;
//   - an error that wraps ctx.Err(), context.Cause(ctx), and the error of the last attempt, if ctx has ended.
//
// Do checks ctx before each attempt, including the first, and the end of ctx ends a wait. Do does not interrupt a running attempt: fn must
// watch ctx. There is no wait after the last attempt. Do does not recover panics.
func Do(ctx context.Context, cfg Config, fn func(ctx context.Context) error) error {
	if cfg.Backoff.IsZero() {
		cfg.Backoff = DefaultRetry()
	}
	var a Attempt
	for {
		if ended := wait.Sleep(ctx, a.Delay); ended != nil {
			return interrupted(ctx, a, ended)
		}
		a = Attempt{Number: a.Number + 1, Err: fn(ctx)}
		result := cfg.next(ctx, &a)
		if cfg.OnAttempt != nil {
			cfg.OnAttempt(ctx, a)
		}
		if a.Last {
			return result
		}
	}
}

// DoValue is [Do] for a function that returns a value. If it returns an error, the value is zero.
func DoValue[T any](ctx context.Context, cfg Config, fn func(ctx context.Context) (T, error)) (T, error) {
	var v, zero T
	err := Do(ctx, cfg, func(ctx context.Context) error {
		var err error
		v, err = fn(ctx)
		return err
	})
	if err != nil {
		return zero, err
	}
	return v, nil
}

// OnError is [Do] with a backoff and a function that reports which errors to retry. A zero backoff means [DefaultRetry].
func OnError(ctx context.Context, b wait.Backoff, retriable func(err error) bool, fn func(ctx context.Context) error) error {
	return Do(ctx, Config{Backoff: b, Retriable: retriable}, fn)
}

// OnConflict retries errors for which [IsConflict] is true, and no others. A conflict means that the object has changed since it was read,
// so fn must read the object again, change it, and write it.
func OnConflict(ctx context.Context, b wait.Backoff, fn func(ctx context.Context) error) error {
	return OnError(ctx, b, IsConflict, fn)
}

// next decides whether an attempt follows a. If none does, it returns the result of Do.
func (c *Config) next(ctx context.Context, a *Attempt) error {
	a.Last = true
	if a.Err == nil {
		return nil
	}
	ended := wait.Sleep(ctx, 0)
	final := IsPermanent(a.Err) || c.Retriable != nil && !c.Retriable(a.Err)
	switch {
	case ended != nil && (!final || errors.Is(a.Err, ctx.Err())): // the error is that of the context, or is less important
		return interrupted(ctx, *a, ended)
	case final:
		return a.Err
	case a.Number == c.Backoff.Steps:
		return gaveUp(a)
	}
	a.Last = false
	var own bool
	if a.Delay, own = Delay(a.Err); !own {
		a.Delay = c.Backoff.Delay(a.Number - 1)
	}
	return nil
}

// gaveUp returns the error of the last attempt that the steps allow. If that attempt is unfinished, so is the result.
func gaveUp(a *Attempt) error {
	err := fmt.Errorf("retry: %w after attempt %d: %w", ErrGaveUp, a.Number, a.Err)
	if IsNotYet(a.Err) {
		d, _ := Delay(a.Err)
		return NotYet(err, d)
	}
	return err
}

// interrupted adds the end of ctx to the error of the last attempt, which may be none.
func interrupted(ctx context.Context, last Attempt, ended error) error {
	if last.Err == nil {
		return ended
	}
	if errors.Is(last.Err, ctx.Err()) && errors.Is(last.Err, context.Cause(ctx)) {
		return last.Err // nothing to add
	}
	return fmt.Errorf("retry: stopped after attempt %d: %w: %w", last.Number, ended, last.Err)
}
