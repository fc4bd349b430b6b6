package controller

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/wait"
)

// origin is a watch, or a channel, as the keys that come from it name it.
type origin[K comparable] struct {
	controller *Controller[K]
	name       string
}

// add adds a key, and says why.
func (o origin[K]) add(key K, low bool, what string) {
	opts := AddOptions{}
	if low {
		opts.Priority = o.controller.cfg.LowPriority
	}
	if o.controller.cfg.Reasons {
		opts.Reason = o.name + what
	}
	o.controller.add(key, opts, !low)
}

// log reports what went wrong with the object under a key, since nobody receives it as an error.
func (o origin[K]) log(ctx context.Context, message string, key any, err error) {
	attrs := []slog.Attr{
		slog.String("controller", o.controller.name), slog.String("watch", o.name), slog.Any("object", key), slog.Any("error", err),
	}
	if p := (*wait.PanicError)(nil); errors.As(err, &p) {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	o.controller.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, message, attrs...)
}

// event is a change that was told.
type event[T any] struct {
	change Change[T]
	low    bool   // it is no news
	what   string // it says, after the name of the watch
}

// states returns the states of an object before and after a change.
func (e event[T]) states() []T {
	switch e.change.Type {
	case informer.Added:
		return []T{e.change.New}
	case informer.Deleted:
		return []T{e.change.Old}
	default:
		return []T{e.change.Old, e.change.New}
	}
}

// passes tells whether a change of the object under key passes all filters.
func passes[K, S comparable, T any](
	ctx context.Context, o origin[K], key S, c Change[T], filters []Filter[T],
) (pass bool) {
	defer func() {
		if v := recover(); v != nil {
			o.log(ctx, "filter panicked, the change counts", key, &wait.PanicError{Value: v, Stack: debug.Stack()})
			pass = true
		}
	}()
	for _, f := range filters {
		if !f(c) {
			return false
		}
	}
	return true
}
