package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Condition is what a poll waits for. True ends the poll with nil, an error ends it with that error, a panic with a
// [*PanicError]; false is asked again. A condition to which an error is no reason to give up returns false and nil. If the
// error is that of its context, which has ended, the poll adds the cause.
type Condition func(ctx context.Context) (done bool, err error)

// Start says when a poll asks for the first time.
type Start bool

const (
	Immediate Start = true  // at once
	Delayed   Start = false // after the first interval
)

// For waits until cond is true, or until ctx ends. It asks at once, after 10ms, and then less and less often down to once
// a second. It is for programs and tests to which the interval does not matter.
func For(ctx context.Context, cond Condition) error {
	b := Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.1, Cap: time.Second}
	return poll(ctx, b, Immediate, Sliding, cond)
}

// PollUntilContextCancel asks cond at a fixed interval until it is true, or until ctx ends. The error then wraps ctx.Err()
// and the cause. If ctx has ended already, cond is not asked, not even when start is Immediate.
//
// The interval is from start to start. A condition that takes longer is followed at once by one other, however many
// intervals it has missed, and the next is back on the grid.
func PollUntilContextCancel(ctx context.Context, interval time.Duration, start Start, cond Condition) error {
	return poll(ctx, Backoff{Duration: interval}, start, NonSliding, cond)
}

// PollUntilContextTimeout is [PollUntilContextCancel] with a limit of its own: when timeout has passed, the context of
// cond ends and so does the poll, with an error that wraps [ErrTimeout] and context.DeadlineExceeded. A condition that is
// due at that very moment is not asked. The end of the caller's ctx is not an ErrTimeout.
func PollUntilContextTimeout(ctx context.Context, interval, timeout time.Duration, start Start, cond Condition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v", ErrTimeout, timeout))
	defer cancel()
	return PollUntilContextCancel(ctx, interval, start, cond)
}

// ExponentialBackoffWithContext asks cond at once, and then with the delays of b in between, until it is true, it has been
// asked b.Steps times ([ErrTimeout]), or ctx ends. There is no delay after the last time. A condition's own time does not
// count: delays are from its end to its next start.
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
			return fmt.Errorf("wait: condition not met: %w after %d steps", ErrTimeout, b.Steps)
		}
		delay = b.Delay(n)
	}
}

// explain returns err, the error of a condition. If it is the end of ctx, as the condition has seen it, explain adds what
// only the context knows: the cause.
func explain(ctx context.Context, err error) error {
	if !errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
		return err // nothing to add, or ctx has not ended: it has no error then
	}
	return fmt.Errorf("wait: condition not met: %w: %w", context.Cause(ctx), err)
}
