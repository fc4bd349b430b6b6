package retry

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Config says how [Do] tries. The zero value is of use: it tries as [DefaultRetry] says, whatever the error.
type Config struct {
	// Backoff is how often to try and how long to wait in between. Its zero value stands for DefaultRetry(); any other
	// value with Steps 0 tries until the context ends.
	Backoff wait.Backoff

	// Retriable decides whether to try again after err. Defaults to yes. It is not asked about an error made by
	// [Permanent], which is never retried.
	Retriable func(err error) bool

	// OnAttempt is called after each attempt, on the goroutine of the caller of Do and before it waits. For logs and
	// metrics: what it does delays the next attempt.
	OnAttempt func(ctx context.Context, a Attempt)
}

// Attempt is one call of the function that is retried, as Config.OnAttempt sees it.
type Attempt struct {
	Number int           // counted from 1
	Err    error         // what the function returned
	Last   bool          // no attempt follows: it succeeded, its error is final, no steps are left, or the context has ended
	Delay  time.Duration // what the next attempt waits for, unless the context ends; 0 after the last
}

// DefaultRetry is for conflicts, where the next attempt works on fresh data and is likely to succeed: 5 attempts, 10ms
// apart, with 10% jitter.
func DefaultRetry() wait.Backoff {
	return wait.Backoff{Steps: 5, Duration: 10 * time.Millisecond, Factor: 1, Jitter: 0.1}
}

// DefaultBackoff is for conflicts with somebody who is busy, or for a service that needs air: 4 attempts, after 10ms,
// 50ms and 250ms, with 10% jitter.
func DefaultBackoff() wait.Backoff {
	return wait.Backoff{Steps: 4, Duration: 10 * time.Millisecond, Factor: 5, Jitter: 0.1}
}
