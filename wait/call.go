package wait

import (
	"context"
	"fmt"
	"runtime/debug"
)

// PanicError is a panic that [Call], or another function of this package, has turned into an error.
type PanicError struct {
	// Value is the argument of panic.
	Value any

	// Stack is the stack of the goroutine that panicked, as runtime/debug.Stack prints it.
	Stack []byte
}

// Error returns one line with the value and without the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Call runs f(ctx) and returns its error. If f panics, Call returns a [*PanicError].
//
// Call runs f even if ctx has ended. It does not stop a runtime.Goexit in f.
func Call(ctx context.Context, f func(context.Context) error) error {
	panicked, err := try(ctx, f)
	if panicked != nil {
		return panicked
	}
	return err
}

// try is Call with the panic as a separate result: an f that returns a *PanicError has not panicked, but has handled a panic.
func try(ctx context.Context, f func(context.Context) error) (panicked *PanicError, err error) {
	defer func() {
		if v := recover(); v != nil {
			panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return nil, f(ctx)
}
