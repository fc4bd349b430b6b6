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
// when something adds it. If it is added before the time that is asked for here, the result of that reconcile takes the
// place of this one. Beside an error the Result is ignored.
type Result struct {
	// RequeueAfter is the time after which the key is reconciled again, counted from the end of this reconcile. Zero or
	// less is never.
	RequeueAfter time.Duration

	// RequeueAt is the time at which the key is reconciled again: one in the past is at once. Of RequeueAt and RequeueAfter
	// the earlier counts. Zero is never.
	RequeueAt time.Time
}

// Func is a function that is a [Reconciler].
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// Reconcile calls f.
func (f Func[K]) Reconcile(ctx context.Context, key K) (Result, error) { return f(ctx, key) }

// again returns the time until the key is to be reconciled again, counted from now, if it is.
func (r Result) again(now time.Time) (d time.Duration, ok bool) {
	if !r.RequeueAt.IsZero() {
		d, ok = max(r.RequeueAt.Sub(now), 0), true
	}
	if r.RequeueAfter > 0 && (!ok || r.RequeueAfter < d) {
		d, ok = r.RequeueAfter, true
	}
	return d, ok
}
