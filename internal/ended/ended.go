package ended

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Err returns err. If err wraps the cause of ctx, and that wraps an answer, Err returns another error instead, which wraps the cause without
// the answers.
func Err(ctx context.Context, err error, answers []error) error {
	if ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	if !errors.Is(err, cause) || !slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(cause, answer) }) {
		return err
	}
	return &endedError{ctx.Err(), cause, answers}
}

// endedError has no Unwrap, because the cause may be found only without its answers.
type endedError struct {
	err, cause error
	answers    []error
}

func (e *endedError) Error() string { return fmt.Sprintf("%v: %v", e.err, e.cause) }

func (e *endedError) Is(target error) bool {
	return errors.Is(e.err, target) || !slices.Contains(e.answers, target) && errors.Is(e.cause, target)
}
