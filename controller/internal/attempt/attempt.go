package attempt

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/internal/caller"
	"github.com/setpoint-go/setpoint/internal/written"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Controller is what all attempts of one controller share.
type Controller[K comparable] struct {
	Name   string
	Logger *slog.Logger

	// Wrote is called after each write to a store under the context of an Attempt. It may be nil.
	Wrote func(key K, clock written.Clock, version uint64)
}

// Attempt is one reconcile and its context, in one allocation. Its fields are set before the context is used.
type Attempt[K comparable] struct {
	context.Context                 // bounds the reconcile; has no values of its own
	Work            context.Context // ends when the controller must stop; Context is derived from it
	Traced          context.Context // derived from the Attempt by Hooks.Trace; nil without it
	Of              *Controller[K]

	Key          K
	Number       uint64 // of the reconcile
	Ordinal      int    // 1, plus the failures of the key
	FirstFailure time.Time
	Reasons      []workqueue.Reason

	calls atomic.Pointer[caller.Attempt] // identifies the reconcile to limiters; nil before the first one asks
}

// Info describes an Attempt. Its fields are those of controller.Info.
type Info struct {
	Controller   string
	Key          string
	Reconcile    uint64
	Attempt      int
	FirstFailure time.Time
	Reasons      []workqueue.Reason
}

// Any is an Attempt for any type of keys.
type Any interface {
	Info() Info
	Log() *slog.Logger
}

// contextKey is the key of the Attempt in its context.
type contextKey struct{}

// From returns the Attempt that ctx belongs to, or nil.
func From(ctx context.Context) Any {
	a, _ := ctx.Value(contextKey{}).(Any)
	return a
}

// Value returns the Attempt, or a value of its parent.
func (a *Attempt[K]) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return a
	case caller.Key:
		return a.identity()
	case written.Key:
		if a.Of.Wrote != nil {
			return a
		}
		return nil // hides an outer Attempt
	}
	return a.Context.Value(key)
}

// Wrote is called by a store after a successful write under the context of a.
func (a *Attempt[K]) Wrote(clock written.Clock, version uint64) { a.Of.Wrote(a.Key, clock, version) }

// identity returns the identity of a for limiters.
func (a *Attempt[K]) identity() *caller.Attempt {
	if a.calls.Load() == nil {
		a.calls.CompareAndSwap(nil, &caller.Attempt{ID: caller.ID{Controller: a.Of, Key: a.Key}})
	}
	return a.calls.Load()
}

// Given returns the context of the reconcile function.
func (a *Attempt[K]) Given() context.Context {
	if a.Traced != nil {
		return a.Traced
	}
	return a
}

// LastWord returns an Attempt like a, for calls after the reconcile: its context is bounded only by Work. If there is a trace, it has the
// values of Traced.
func (a *Attempt[K]) LastWord() *Attempt[K] {
	last := &Attempt[K]{
		Context: a.Work, Work: a.Work, Of: a.Of,
		Key: a.Key, Number: a.Number, Ordinal: a.Ordinal, FirstFailure: a.FirstFailure, Reasons: a.Reasons,
	}
	if a.Traced != nil {
		last.Context = term.WithValues(a.Work, a.Traced)
	}
	last.calls.Store(a.identity())
	return last
}

// End tells the limiters that a has ended.
func (a *Attempt[K]) End() {
	if calls := a.calls.Load(); calls != nil {
		calls.End()
	}
}

// Info describes a.
func (a *Attempt[K]) Info() Info {
	return Info{
		Controller: a.Of.Name, Key: Text(a.Key), Reconcile: a.Number,
		Attempt: a.Ordinal, FirstFailure: a.FirstFailure, Reasons: a.Reasons,
	}
}

// Text returns the text of key, as fmt.Sprint does. For a string, it allocates nothing.
func Text[K comparable](key K) string {
	if text, ok := any(key).(string); ok {
		return text
	}
	return fmt.Sprint(key)
}

// Log returns a logger with the attributes that describe a.
func (a *Attempt[K]) Log() *slog.Logger {
	attrs := []any{"controller", a.Of.Name, "key", a.Key, "attempt", a.Ordinal, "reconcile", a.Number}
	if !a.FirstFailure.IsZero() {
		attrs = append(attrs, "first_failure", a.FirstFailure)
	}
	if len(a.Reasons) > 0 {
		texts := make([]string, len(a.Reasons))
		for i, r := range a.Reasons {
			texts[i] = r.Text
		}
		attrs = append(attrs, "reasons", texts)
	}
	return a.Of.Logger.With(attrs...)
}
