package controller

import (
	"context"

	"github.com/setpoint-go/setpoint/leaderelect"
)

// workContext returns a context for work that must be finished although ctx has ended. It ends when stop is called, and when the leadership
// that ctx belongs to, if any, is lost: then before ctx does. It has the values of ctx. No goroutine forwards the cancellation.
func workContext(ctx context.Context) (work context.Context, stop context.CancelCauseFunc) {
	parent := context.WithoutCancel(ctx)
	if l, ok := leaderelect.FromContext(ctx); ok {
		parent = joinValues(l.Context(), ctx)
	}
	return context.WithCancelCause(parent)
}

// leadershipErr returns why the leadership that ctx belongs to is over. It returns nil if the leadership holds, or if there is none.
// It checks the clock, so it detects that the deadline has passed even if no timer has fired yet.
func leadershipErr(ctx context.Context) error {
	if l, ok := leaderelect.FromContext(ctx); ok {
		return l.Err()
	}
	return nil
}

// joinValues returns a context that ends with ctx, and has the values of another context before those of ctx.
func joinValues(ctx, values context.Context) context.Context {
	return joined{Context: ctx, values: context.WithoutCancel(values)}
}

// joined is a context that ends with one context and has the values of another before its own.
type joined struct {
	context.Context
	values context.Context
}

// Value also asks the ending context. So the context package can end children without a goroutine, and with the cause.
func (j joined) Value(key any) any {
	if v := j.values.Value(key); v != nil {
		return v
	}
	return j.Context.Value(key)
}

// stopWith calls stop with the cause of ctx when ctx ends. The caller must call release. When release has returned, stop is no longer
// called.
func stopWith(ctx context.Context, stop context.CancelCauseFunc) (release func()) {
	ended := make(chan struct{})
	// The goroutine of AfterFunc makes one call after ctx has ended. release waits for it.
	cancel := context.AfterFunc(ctx, func() {
		defer close(ended)
		stop(context.Cause(ctx))
	})
	return func() {
		if !cancel() {
			<-ended
		}
	}
}
