package wait

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrTimeout reports that a wait reached its timeout or its number of steps before its condition was true. The end of the caller's context
// is not an ErrTimeout.
var ErrTimeout = errors.New("wait: timeout")

// errGoexit is the error of a function that called runtime.Goexit, as testing.T.FailNow does.
var errGoexit = errors.New("wait: run function: it called runtime.Goexit")

// Interrupted reports whether err says that a wait ended before its condition was true: at its own limit, or because a context
// was canceled or reached its deadline. To distinguish them, use errors.Is with [ErrTimeout], context.Canceled,
// context.DeadlineExceeded, or the cause of the cancellation.
func Interrupted(err error) bool {
	return errors.Is(err, ErrTimeout) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Dedupe returns err with a shorter text: each line of the text appears once, with the number of its occurrences. Use it for
// errors of errors.Join, when a hundred pieces may have failed for the same reason. Lines keep their order. Dedupe(nil) is
// nil. The result wraps err.
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
