package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/caller"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Info is what the context of a reconcile says about it. [FromContext] returns it.
type Info struct {
	// Controller is the name of the controller.
	Controller string

	// Key is the key, as fmt prints it.
	Key string

	// Reconcile is the number of this reconcile. No other one of the controller has it.
	Reconcile uint64

	// Attempt is 1 for a key that did not fail before. It grows with each failure, panic or timeout until the key succeeds
	// or is parked.
	Attempt int

	// FirstFailure is when the first of these attempts failed, zero at the first attempt.
	FirstFailure time.Time

	// Reasons are why the key was added, the oldest first, as far as somebody said why: the errors of the attempts before,
	// what [Controller.AddWith] was told, and the events, if Config.Reasons is set. They are for people. A Reconcile whose
	// result depends on them is wrong as soon as an event is merged or missed.
	Reasons []workqueue.Reason
}

// FromContext returns what is known of the reconcile that ctx belongs to. It returns false outside of a reconcile.
func FromContext(ctx context.Context) (Info, bool) {
	if t, ok := ctx.Value(contextKey{}).(described); ok {
		return t.describe(), true
	}
	return Info{}, false
}

// Logger returns a logger that names the controller, the key, the reconcile, its attempt and, after a failure, when the
// first attempt failed and why the key was added. Outside of a reconcile it is slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if t, ok := ctx.Value(contextKey{}).(described); ok {
		return t.logger()
	}
	return slog.Default()
}

// contextKey is the key of the try in the context of a reconcile.
type contextKey struct{}

// described is a try of any key.
type described interface {
	describe() Info
	logger() *slog.Logger
}

// try is one reconcile, and its context: it is one thing so that it takes one allocation.
type try[K comparable] struct {
	context.Context
	work  context.Context // ends when the controller has to stop; Context is below it
	info  Info
	key   K
	began time.Duration // after Controller.started
	of    *Controller[K]
	calls atomic.Pointer[caller.Attempt] // by which a limiter knows the key; nil if none has asked

	lastWord bool // Config.GaveUp was called, and has not returned
}

// Value has the try in it beside the values of the context.
func (t *try[K]) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return t
	case caller.Key:
		return t.attempt()
	case written.Key:
		if !t.of.cfg.StaleReads {
			return t
		}
		return nil // nor does a reconcile around this one hear of it
	}
	return t.Context.Value(key)
}

// Wrote is called by a store whose write under the context of t was accepted: the key of t is not reconciled again before the
// caches of the controller show that.
func (t *try[K]) Wrote(clock written.Clock, version uint64) {
	t.of.mirrors.Wrote(t.key, clock, version)
}

// attempt returns that by which a limiter knows the attempt.
func (t *try[K]) attempt() *caller.Attempt {
	if t.calls.Load() == nil {
		t.calls.CompareAndSwap(nil, &caller.Attempt{ID: caller.ID{Controller: t.of, Key: t.key}})
	}
	return t.calls.Load()
}

// endCalls tells the limiters that the attempt calls no more.
func (t *try[K]) endCalls() {
	if a := t.calls.Load(); a != nil {
		a.End()
	}
}

func (t *try[K]) describe() Info {
	info := t.info
	info.Key = fmt.Sprint(t.key)
	return info
}

func (t *try[K]) logger() *slog.Logger {
	attrs := []any{"controller", t.info.Controller, "key", t.key, "attempt", t.info.Attempt, "reconcile", t.info.Reconcile}
	if !t.info.FirstFailure.IsZero() {
		attrs = append(attrs, "first_failure", t.info.FirstFailure)
	}
	if len(t.info.Reasons) > 0 {
		texts := make([]string, len(t.info.Reasons))
		for i, r := range t.info.Reasons {
			texts[i] = r.Text
		}
		attrs = append(attrs, "reasons", texts)
	}
	return t.of.cfg.Logger.With(attrs...)
}
