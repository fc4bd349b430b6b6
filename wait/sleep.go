package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// grace is how long the timer of a context may be behind its deadline before we no longer wait for the cause.
const grace = time.Millisecond

// Sleep waits for d, or until ctx ends. It returns nil if d has passed and ctx has not ended, else an error that wraps
// both ctx.Err() and context.Cause(ctx).
//
// A context that has ended always wins: over a d that is 0 or less, which waits for nothing, and over a d that ends at the
// very moment of ctx's deadline.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := ended(ctx); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ended(ctx) // select takes either if both are ready
}

// ended returns nil if ctx goes on, else an error that wraps ctx.Err() and the cause.
func ended(ctx context.Context) error {
	why := ctx.Err()
	if why == nil {
		deadline, ok := ctx.Deadline()
		if !ok || time.Now().Before(deadline) {
			return nil
		}
		// The context's timer is due now, as ours was, and has not run yet. It brings the cause. It may be behind for
		// long if the deadline is a time on the wall and the clock on the wall was set: then the deadline decides.
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			why = ctx.Err()
		case <-timer.C:
			why = context.DeadlineExceeded
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(why, cause) {
		return fmt.Errorf("%w: %w", why, cause)
	}
	return why
}
