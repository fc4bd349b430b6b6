package wait

import (
	"context"
	"errors"
)

// ErrTimeout says that a wait came to its own limit, a timeout or a number of steps, before its condition was true. The
// end of the caller's context is not an ErrTimeout.
var ErrTimeout = errors.New("wait: timeout")

// errGoexit stands for the error of a function that ended its goroutine, as testing.T.FailNow does.
var errGoexit = errors.New("wait: run function: it called runtime.Goexit")

// Interrupted reports whether err says that a wait ended before its condition was true: at its own limit, or because a
// context was cancelled or came to its deadline. errors.Is tells which: [ErrTimeout], context.Canceled,
// context.DeadlineExceeded, or the cause that the context was cancelled with.
func Interrupted(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
