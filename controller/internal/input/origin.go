package input

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/setpoint-go/setpoint/wait"
)

// Target is the controller to which the keys go.
type Target[K comparable] struct {
	Name       string
	Background int  // the priority of keys that are not news; not positive
	Reasons    bool // Add gets the reason
	Traces     bool // Add gets the trace context
	Logger     *slog.Logger

	// Add adds a key. It does not block.
	Add func(key K, a Addition)

	// Check panics if a method of err panics that the controller or the logger calls.
	Check func(err error)
}

// Addition says how and why a key is added.
type Addition struct {
	Priority int
	Reason   string // empty without Target.Reasons
	Trace    string // the trace context of the change; empty if there is none, or without Target.Traces
	News     bool
}

// Origin identifies the input that keys come from.
type Origin[K comparable] struct {
	To       *Target[K]
	Name     string
	Priority int // of its news
}

// add adds a key with its reason.
func (o Origin[K]) add(key K, what happening, trace string) {
	a := Addition{Priority: o.Priority, Trace: trace, News: what.isNews()}
	if !a.News {
		a.Priority = min(a.Priority, o.To.Background)
	}
	if o.To.Reasons {
		a.Reason = o.Name + what.String()
	}
	o.To.Add(key, a)
}

// ask returns whether a change to the object under key counts, as a user function decides. It counts if the function panics.
func (o Origin[K]) ask(ctx context.Context, function string, key func() any, f func() bool) (counts bool) {
	defer func() {
		if v := recover(); v != nil {
			o.log(ctx, function+" panicked, the change counts", key(), &wait.PanicError{Value: v, Stack: debug.Stack()})
			counts = true
		}
	}()
	return f()
}

// log logs a problem with the object under a key, since no caller receives it as an error.
func (o Origin[K]) log(ctx context.Context, message string, key any, err error) {
	attrs := []slog.Attr{
		slog.String("controller", o.To.Name), slog.String("watch", o.Name), slog.Any("object", key), slog.Any("error", err),
	}
	if p := (*wait.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	o.To.Logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// event is a change that a feed received.
type event[T any] struct {
	what     happening
	old, new T      // zero if there is none
	trace    string // the trace context of the change; empty if there is none
}

// had and has report whether there is an old and a new state.
func (e event[T]) had() bool { return e.what == updated || e.what == deleted }
func (e event[T]) has() bool { return e.what != deleted }

// happening is what has happened to an object.
type happening int

const (
	listed   happening = iota // was present when the feed began
	repeated                  // is still present: a resync
	told                      // reported by a handler of the user
	added
	updated
	deleted
)

// isNews reports whether something has changed.
func (h happening) isNews() bool { return h > repeated }

// and returns the more important of two: the later one, unless only the earlier one is news.
func (h happening) and(later happening) happening {
	if h.isNews() && !later.isNews() {
		return h
	}
	return later
}

// String returns the text in reasons after the name of the informer.
func (h happening) String() string {
	return [...]string{" listed", " listed again", " told", " added", " updated", " deleted"}[h]
}
