package simtest

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// silence has the default loggers discard what they get, until the function that it returns is called.
func silence() (end func()) { return logTo(slog.DiscardHandler) }

// withoutCrashes has the default loggers pass on everything but the ends of processes. A process that crashes ends its goroutines by
// runtime.Goexit, which a controller logs as a panic, with its stack. The timeline says CRASH.
func withoutCrashes() (end func()) {
	return logTo(survivors{slog.NewTextHandler(log.Writer(), nil)})
}

func logTo(h slog.Handler) (end func()) {
	was, out, flags := slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(h))
	return func() {
		slog.SetDefault(was)
		log.SetOutput(out) // SetDefault takes it, and does not give it back
		log.SetFlags(flags)
	}
}

// survivors is a handler of the records of processes that live.
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
