package wait

import (
	"context"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that was turned into an error, by [Call] and by everything in this package that runs functions of
// its caller.
type PanicError struct {
	// Value is what panic was called with.
	Value any

	// Stack is the stack of the goroutine that panicked, as runtime/debug.Stack prints it.
	Stack []byte
}

// Error names the value and leaves the stack out, so that it fits in a line.
func (e *PanicError) Error() string {
	return fmt.Sprintf("wait: recover from panic: %v", e.Value)
}

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Call runs f(ctx) and returns its error. If f panics, Call returns a [*PanicError].
//
// Call runs f even if ctx has ended, and does not stop runtime.Goexit.
func Call(ctx context.Context, f func(context.Context) error) error {
	panicked, err := try(ctx, f)
	if panicked != nil {
		return panicked
	}
	return err
}

// try runs f and tells its error from its panic: an f that returns a *PanicError has not panicked, it has handled one.
func try(ctx context.Context, f func(context.Context) error) (panicked *PanicError, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return nil, f(ctx)
}
