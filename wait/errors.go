package wait

import (
	"context"
	"errors"
)

// ErrTimeout reports that a wait reached its timeout or its number of steps before its condition was true. The end of the caller's context
// is not an ErrTimeout.
var ErrTimeout = errors.New("timeout")

// errGoexit is the error of a function that called runtime.Goexit, as testing.T.FailNow does.
var errGoexit = errors.New("wait: run function: it called runtime.Goexit")

// Interrupted reports whether err says that a wait ended before its condition was true: at its own limit, or because a context
// was canceled or reached its deadline. To distinguish them, use errors.Is with [ErrTimeout], context.Canceled,
// context.DeadlineExceeded, or the cause of the cancellation.
func Interrupted(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
