package retry

import (
	"context"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Config controls how [Do] retries. The zero value retries every error, with the backoff of [DefaultRetry].
type Config struct {
	// Backoff is the number of attempts and the delays between them. Defaults to DefaultRetry(). If another field is set and
	// Steps is 0, Do retries until the context ends.
	Backoff wait.Backoff

	// Retriable reports whether to retry after err. Defaults to always true. It is not called for an error of [Permanent], which is never
	// retried.
	Retriable func(err error) bool

	// OnAttempt, if set, is called after each attempt and before the wait, on the goroutine of the caller of Do. Use it for logs
	// and metrics. It delays the next attempt, so it should be fast.
	OnAttempt func(ctx context.Context, a Attempt)
}

// Attempt describes one call of the retried function to Config.OnAttempt. If the context ends during the wait after an attempt,
// no attempt has Last set.
type Attempt struct {
	Number int           // counted from 1
	Err    error         // the error that the function returned
	Last   bool          // no attempt follows: it succeeded, its error is final, no steps are left, or the context has ended
	Delay  time.Duration // the wait before the next attempt, unless the context ends; 0 after the last
}

// DefaultRetry returns a backoff for conflicts, where the next attempt reads fresh data and is likely to succeed: 5 attempts,
// 10ms apart, with 10% jitter.
func DefaultRetry() wait.Backoff {
	return wait.Backoff{Steps: 5, Duration: 10 * time.Millisecond, Factor: 1, Jitter: 0.1}
}

// DefaultBackoff returns a backoff for conflicts with a frequent writer, or for an overloaded service: 4 attempts, with delays of
// 10ms, 50ms, and 250ms, and 10% jitter.
func DefaultBackoff() wait.Backoff {
	return wait.Backoff{Steps: 4, Duration: 10 * time.Millisecond, Factor: 5, Jitter: 0.1}
}
