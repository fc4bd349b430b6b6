package retry

import (
	"errors"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

// ErrGaveUp says that the last attempt of the backoff failed. The error that wraps it also wraps the error of that attempt.
var ErrGaveUp = errors.New("gave up")

// Permanent marks err as final: it is not retried. [Do] and the other functions return it without asking Config.Retriable. A controller, and
// the Run of a workqueue, park the key, unless they were stopped: then the next Run finds out. Do returns the marked error, so that an outer retry ends too. The result has the text of err and wraps err. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &outcome.PermanentError{Err: err}
}

// After marks err as a failure to retry after d, without jitter, instead of after the backoff's delay. It counts as an attempt
// like every other failure. If d is 0 or negative, the backoff decides. Config.Retriable and Steps decide whether there is
// another attempt. If err is one of [NotYet], After changes only its delay: it remains unfinished. After(nil, d) is nil.
//
// Your own error type has the same effect if it has a method RetryAfter() time.Duration.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &outcome.AfterError{Err: err, Delay: d}
}

// NotYet says that the work has not failed but is not finished, and continues after d. Use it for a cleanup that takes minutes, or for a
// service that returns 429. If d is 0, the caller decides when to continue: a controller and a queue wait for an event, and [Do] waits for the
// delay of its backoff. If d is negative, like time.Until of a time in the past, the work continues at once. The result has the text of err and
// wraps err.
//
// NotYet(nil, d) is nil, which means that the work is finished. So always give a reason.
func NotYet(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		d = 1 // the time has passed
	}
	return &outcome.NotYetError{Err: err, Delay: d}
}

// IsPermanent reports whether err, or any error that it wraps, was made by [Permanent]. A permanent error stays permanent, even if it has
// other marks.
func IsPermanent(err error) bool {
	return outcome.IsPermanent(err)
}

// IsNotYet reports whether err is or wraps an error of [NotYet], and is not permanent. If an error wraps several errors, as one of
// errors.Join does, all of them must be errors of NotYet. Otherwise a failure could hide behind a wait.
func IsNotYet(err error) bool {
	return outcome.IsNotYet(err)
}

// Delay returns the delay that err requests by [After], [NotYet], or a method RetryAfter() time.Duration. It returns false if err leaves
// the delay to the backoff. If several errors are joined, the longest delay counts. If one of them is a failure, the delays of unfinished
// attempts do not count.
func Delay(err error) (d time.Duration, ok bool) {
	return outcome.Delay(err)
}

// IsConflict reports whether err contains a conflict. The first error in its tree that has a method Conflict() bool decides. A controller
// and a queue treat err as a conflict only if no failure is joined with it.
func IsConflict(err error) bool {
	return outcome.IsConflict(err)
}
