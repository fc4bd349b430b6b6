package events

import (
	"cmp"
	"context"
	"log/slog"
)

// SlogSink returns a Config.Sink that logs every event as "event", with what it is about, at level Info when it is normal
// and Warn when it is a warning. A nil logger stands for slog.Default().
func SlogSink(logger *slog.Logger) func(Event) {
	logger = cmp.Or(logger, slog.Default())
	return func(e Event) {
		level := slog.LevelInfo
		if e.Type == Warning {
			level = slog.LevelWarn
		}
		logger.LogAttrs(context.Background(), level, "event",
			slog.String("kind", e.About.Kind),
			slog.String("key", e.About.Key),
			slog.String("uid", e.About.UID),
			slog.String("reason", e.Reason),
			slog.String("message", e.Message),
			slog.Int("count", e.Count),
		)
	}
}
