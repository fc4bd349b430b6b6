package wait

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// grace is how long ended waits for the cause of a context whose deadline has passed. In a busy process, its timer may be tens of
// milliseconds late.
const grace = time.Second

// Sleep waits for d, or until ctx ends. It returns nil if d has passed and ctx has not ended. Otherwise it returns an error that
// wraps both ctx.Err() and context.Cause(ctx).
//
// If ctx has ended, Sleep always returns an error, even if d is 0 or negative, or ends exactly at the deadline of ctx.
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
	return ended(ctx) // select chooses either if both are ready
}

// ended returns nil if ctx has not ended, and otherwise an error that wraps ctx.Err() and the cause.
func ended(ctx context.Context) error {
	why := ctx.Err()
	if why == nil {
		deadline, ok := ctx.Deadline()
		if !ok || time.Now().Before(deadline) {
			return nil
		}
		// The context's timer is due but has not run yet, and only it sets the cause. If the deadline is a wall clock time and the wall
		// clock was set, the timer may be late by any amount: then the deadline decides.
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
