package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Condition reports whether a poll is done. If it returns an error, the poll returns that error, even if done is true. If it
// panics, the poll returns a [*PanicError]. If it returns true and nil, the poll returns nil, even if ctx has ended. If it returns
// false and nil, the poll calls it again later; so return false and nil for an error that should not end the poll. If ctx has
// ended and the error wraps its Err, the poll adds the cause.
type Condition func(ctx context.Context) (done bool, err error)

// Start says when a poll calls its condition for the first time.
type Start bool

const (
	Immediate Start = true  // at once
	Delayed   Start = false // after the first interval
)

// For waits until cond is true, or until ctx ends. It calls cond at once, after 10ms, and then less and less often, down to
// once a second. Use it if the interval does not matter.
func For(ctx context.Context, cond Condition) error {
	b := Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Cap: time.Second}
	return poll(ctx, b, Immediate, Sliding, cond)
}

// PollUntilContextCancel calls cond at a fixed interval until it is true, or until ctx ends. In the latter case the error wraps
// ctx.Err() and the cause. If ctx has already ended, cond is not called, even if start is Immediate.
//
// The interval is measured from start to start. After a call that takes longer, one call starts at once, however many were
// missed. The call after that is back on the grid. If interval is 0 or negative, the calls follow each other without a pause.
func PollUntilContextCancel(ctx context.Context, interval time.Duration, start Start, cond Condition) error {
	return poll(ctx, Backoff{Duration: interval}, start, NonSliding, cond)
}

// PollUntilContextTimeout is [PollUntilContextCancel] with a timeout. When timeout has passed, the context of cond ends, and
// the poll returns an error that wraps [ErrTimeout] and context.DeadlineExceeded. If a call of cond is due at exactly that
// moment, it is not made. So if timeout is 0 or negative, cond is not called. The end of the caller's ctx is not an ErrTimeout.
func PollUntilContextTimeout(ctx context.Context, interval, timeout time.Duration, start Start, cond Condition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
	defer cancel()
	return PollUntilContextCancel(ctx, interval, start, cond)
}

// ExponentialBackoffWithContext calls cond at once, and then repeatedly, with the delays of b in between. It stops when cond is
// true, after b.Steps calls ([ErrTimeout]), or when ctx ends. There is no delay after the last call. Delays are measured from
// the end of a call to the start of the next.
func ExponentialBackoffWithContext(ctx context.Context, b Backoff, cond Condition) error {
	return poll(ctx, b, Immediate, Sliding, cond)
}

// poll is the general form of the above.
func poll(ctx context.Context, b Backoff, start Start, pace Pace, cond Condition) error {
	r := rhythm{due: time.Now(), pace: pace}
	delay := time.Duration(0)
	if start == Delayed {
		delay = b.Delay(0)
	}
	for n := 0; ; n++ {
		if err := r.next(ctx, delay); err != nil {
			return fmt.Errorf("wait: condition not met: %w", err)
		}
		done := false
		err := Call(ctx, func(ctx context.Context) (err error) {
			done, err = cond(ctx)
			return err
		})
		if err != nil {
			return explain(ctx, err)
		}
		if done {
			return nil
		}
		if n+1 == b.Steps {
			if err := ended(ctx); err != nil {
				return fmt.Errorf("wait: condition not met: %w", err) // the end of ctx is not an ErrTimeout
			}
			return fmt.Errorf("wait: condition not met: %w after %d steps", ErrTimeout, b.Steps)
		}
		delay = b.Delay(n)
	}
}

// explain returns err, the error of a condition. If err reports the end of ctx without its cause, explain adds the cause.
func explain(ctx context.Context, err error) error {
	if !errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
		return err // nothing to add, or ctx has not ended: it has no error then
	}
	return fmt.Errorf("wait: condition not met: %w: %w", context.Cause(ctx), err)
}
