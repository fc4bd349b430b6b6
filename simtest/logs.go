package simtest

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// silence makes the default loggers discard everything until the returned function is called.
func silence() (end func()) { return logTo(slog.DiscardHandler) }

// withoutCrashes makes the default loggers pass on everything except the ends of processes. A process that crashes ends its goroutines by
// runtime.Goexit, which a controller logs as a panic, with its stack. The timeline says CRASH.
func withoutCrashes() (end func()) {
	return logTo(survivors{slog.NewTextHandler(log.Writer(), nil)})
}

func logTo(h slog.Handler) (end func()) {
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(h))
	return func() {
		slog.SetDefault(was)
		log.SetOutput(out) // SetDefault replaces it, and does not restore it
		log.SetFlags(flags)
	}
}

// survivors is a log handler that drops the records of dead processes.
type survivors struct{ slog.Handler }

func (h survivors) Handle(ctx context.Context, r slog.Record) error {
	crash := false
	r.Attrs(func(a slog.Attr) bool {
		crash = a.Key == "error" && strings.HasSuffix(a.Value.String(), "called runtime.Goexit")
		return !crash
	})
	if crash {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h survivors) WithAttrs(attrs []slog.Attr) slog.Handler {
	return survivors{h.Handler.WithAttrs(attrs)}
}
func (h survivors) WithGroup(name string) slog.Handler { return survivors{h.Handler.WithGroup(name)} }
