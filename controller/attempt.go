package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Info describes a reconcile in progress. [FromContext] returns it.
type Info struct {
	// Controller is the name of the controller.
	Controller string

	// Key is the key, as fmt prints it.
	Key string

	// Reconcile is the number of this reconcile, unique within the controller.
	Reconcile uint64

	// Attempt is 1 for a key that has not failed. It grows with each failure, panic, or timeout until the key succeeds or is
	// parked, but not with those of attempts that events bring before the retry is due: see [Outcome].
	Attempt int

	// FirstFailure is the time at which the first of these attempts failed. It is zero in the first attempt.
	FirstFailure time.Time

	// Reasons say why the key was added, the oldest first: the errors of earlier attempts, the reasons given to [Controller.AddWith], and
	// the events, if Config.Reasons is set. They are for people. A reconcile whose result depends on them breaks when an event is merged or
	// missed.
	Reasons []workqueue.Reason
}

// FromContext describes the reconcile that ctx belongs to. It returns false outside a reconcile.
func FromContext(ctx context.Context) (Info, bool) {
	if a := attemptOf(ctx); a != nil {
		return a.info(), true
	}
	return Info{}, false
}

// Logger returns a logger with the attributes controller, key, attempt, reconcile, and, if there are any, first_failure and reasons: see
// [Info]. Outside a reconcile it returns slog.Default().
func Logger(ctx context.Context) *slog.Logger {
	if a := attemptOf(ctx); a != nil {
		return a.logger()
	}
	return slog.Default()
}

// attempt is one reconcile and its context, in one allocation. Through the context, the reconcile function, loggers, limiters, and stores
// find the reconcile, and stores report writes. The fields of the first group are set before the context is used.
//
//  1. attemptOf finds the attempt in its own context and in those derived from it, the innermost one first.
//  2. A limiter sees one identity per attempt, made when it asks for the first time. That of forGaveUp has the same one.
//  3. A write under the context is reported to the controller, unless none of its informers mirrors a store. Then it is not reported, not
//     even to an outer attempt.
type attempt[K comparable] struct {
	context.Context                 // bounds the reconcile; has no values of its own
	work            context.Context // ends when the controller must stop; Context is derived from it
	of              *Controller[K]
	key             K
	number          uint64 // of the reconcile
	ordinal         int    // 1, plus the failures of the key
	firstFailure    time.Time
	reasons         []workqueue.Reason
	began           time.Duration // after Controller.started

	traced context.Context // derived from the attempt by Hooks.Trace; nil without it
	causes []string        // of Hooks.Trace, and nil without it
	end    func(Report[K]) // that Hooks.Trace returned, and nil without it

	shared   context.Context // that of the worker, if a slot bounds the attempt; nil without slots
	done     func()          // ends the work in the slot; nil without slots
	givingUp bool            // Config.GaveUp has been called and has not returned

	identity atomic.Pointer[reconcile.Caller] // for limiters; nil before the first one asks
	first    *attempt[K]                      // the one that has failed, if this is the context of Config.GaveUp; otherwise nil
	ended    atomic.Bool                      // close was called; set only without first
}

// anyAttempt is an attempt for any type of keys.
type anyAttempt interface {
	info() Info
	logger() *slog.Logger
}

// contextKey is the key of the attempt in its context.
type contextKey struct{}

// attemptOf returns the attempt that ctx belongs to, or nil.
func attemptOf(ctx context.Context) anyAttempt {
	a, _ := ctx.Value(contextKey{}).(anyAttempt)
	return a
}

// Value returns the attempt, or a value of its parent.
func (a *attempt[K]) Value(key any) any {
	switch key.(type) {
	case contextKey:
		return a
	case reconcile.CallerKey:
		return a.caller()
	case reconcile.WritesKey:
		if len(a.of.caches.all) > 0 {
			return a
		}
		return nil // hides an outer attempt
	}
	return a.Context.Value(key)
}

// Begin and End implement reconcile.WriteListener: they are called around a write under the context of a.
func (a *attempt[K]) Begin(clock reconcile.Clock)                  { a.of.writes(a.key, clock, a.hasEnded) }
func (a *attempt[K]) End(clock reconcile.Clock, w reconcile.Write) { a.of.wrote(a.key, clock, w) }

// hasEnded reports whether close was called.
func (a *attempt[K]) hasEnded() bool {
	if a.first != nil {
		a = a.first
	}
	return a.ended.Load()
}

// caller returns the identity of a for limiters.
func (a *attempt[K]) caller() *reconcile.Caller {
	if a.identity.Load() == nil {
		a.identity.CompareAndSwap(nil, &reconcile.Caller{ID: reconcile.CallerID{Controller: a.of, Key: a.key}})
	}
	return a.identity.Load()
}

// given returns the context of the reconcile function.
func (a *attempt[K]) given() context.Context {
	if a.traced != nil {
		return a.traced
	}
	return a
}

// forGaveUp returns an attempt like a, for a call of Config.GaveUp: its context is bounded only by work. If there is a trace, it has the
// values of traced.
func (a *attempt[K]) forGaveUp() *attempt[K] {
	last := &attempt[K]{
		Context: a.work, work: a.work, of: a.of, first: a,
		key: a.key, number: a.number, ordinal: a.ordinal, firstFailure: a.firstFailure, reasons: a.reasons,
	}
	if a.traced != nil {
		last.Context = joinValues(a.work, a.traced)
	}
	last.identity.Store(a.caller())
	return last
}

// close records that a has ended, and the call of Config.GaveUp too, and informs the limiters.
func (a *attempt[K]) close() {
	a.ended.Store(true)
	if identity := a.identity.Load(); identity != nil {
		identity.End()
	}
}

func (a *attempt[K]) info() Info {
	return Info{
		Controller: a.of.name, Key: keyText(a.key), Reconcile: a.number,
		Attempt: a.ordinal, FirstFailure: a.firstFailure, Reasons: a.reasons,
	}
}

// keyText returns the text of key, as fmt.Sprint does. For a string, it allocates nothing.
func keyText[K comparable](key K) string {
	if text, ok := any(key).(string); ok {
		return text
	}
	return fmt.Sprint(key)
}

// logger returns a logger with the attributes that describe a.
func (a *attempt[K]) logger() *slog.Logger {
	attrs := []any{"controller", a.of.name, "key", a.key, "attempt", a.ordinal, "reconcile", a.number}
	if !a.firstFailure.IsZero() {
		attrs = append(attrs, "first_failure", a.firstFailure)
	}
	if len(a.reasons) > 0 {
		attrs = append(attrs, "reasons", reasonTexts(a.reasons))
	}
	return a.of.cfg.Logger.With(attrs...)
}

// reasonTexts returns the texts of reasons. Equal ones in a row are one text, with their number.
func reasonTexts(reasons []workqueue.Reason) (texts []string) {
	for i := 0; i < len(reasons); {
		n := 1
		for i+n < len(reasons) && reasons[i+n].Text == reasons[i].Text {
			n++
		}
		text := reasons[i].Text
		if n > 1 {
			text = fmt.Sprintf("%s (%d times)", text, n)
		}
		texts = append(texts, text)
		i += n
	}
	return texts
}
