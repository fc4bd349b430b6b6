package reconcile

import "context"

type contextKey struct{}

// WithPace returns a context under which each reconcile calls wait before it begins. Several workers may call wait concurrently. If wait
// does not return but ends the goroutine (runtime.Goexit), that counts as a Goexit of the reconcile function.
func WithPace(ctx context.Context, wait func(reconcile context.Context)) context.Context {
	return context.WithValue(ctx, contextKey{}, wait)
}

// PaceOf returns the function of [WithPace], or nil.
func PaceOf(ctx context.Context) (wait func(reconcile context.Context)) {
	wait, _ = ctx.Value(contextKey{}).(func(context.Context))
	return wait
}
