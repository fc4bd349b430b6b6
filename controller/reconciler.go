package controller

import (
	"context"
	"time"
)

// Reconciler makes the world equal to what is desired for one key: it reads the present state of both, and changes what
// differs. It must not matter how often it is called, or why. It is called for different keys at once if the controller
// has several workers, never for the same key at once.
//
// The context ends when the reconcile has to stop: see [Config.Timeout] and the shutdown in the package documentation.
// A Reconcile that does not return then keeps [Controller.Run] from returning.
type Reconciler[K comparable] interface {
	Reconcile(ctx context.Context, key K) (Result, error)
}

// Result is what a Reconcile without an error asks for. The zero value asks for nothing: the key is reconciled again
// when something adds it. Beside an error the Result is ignored.
type Result struct {
	// RequeueAfter is the time after which the key is reconciled again. If it is added before, the result of that
	// reconcile takes the place of this one. Zero or less is never.
	RequeueAfter time.Duration
}

// Func is a function that is a [Reconciler].
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Reconcile calls f.
func (f Func[K]) Reconcile(ctx context.Context, key K) (Result, error) { return f(ctx, key) }
