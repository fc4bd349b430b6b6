package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Dedupe returns err with a text that names each message once, and how often it occurs. It is for errors that
// errors.Join has joined, where a hundred pieces may have failed in one way. Messages are lines and keep their order.
// Dedupe(nil) is nil; errors.Is and errors.As see err.
func Dedupe(err error) error {
	if err == nil {
		return nil
	}
	return deduped{err}
}

type deduped struct{ err error }

func (d deduped) Unwrap() error { return d.err }

func (d deduped) Error() string {
	times := make(map[string]int)
	var messages []string
	for line := range strings.Lines(d.err.Error()) {
		line = strings.TrimSuffix(line, "\n")
		if times[line]++; times[line] == 1 {
			messages = append(messages, line)
		}
	}
	for i, message := range messages {
		if n := times[message]; n > 1 {
			messages[i] = fmt.Sprintf("%s (%d times)", message, n)
		}
	}
	return strings.Join(messages, "\n")
}
