package lease

import (
	"context"
	"log/slog"
	"time"
)

// warnPeriod is the shortest time from one warning to the next of the same message.
const warnPeriod = 10 * time.Second

// Warnings logs failures that repeat themselves with every RetryPeriod, each message once in a while. All of them are told
// to Hooks, and Stats has the last one. It belongs to one goroutine.
type Warnings struct {
	log  *slog.Logger
	past map[string]warning // by message
}

// warning is what became of a message.
type warning struct {
	at      time.Time // when it was logged
	skipped int       // how often it was not, since
}

// NewWarnings returns warnings of which none was logged yet.
func NewWarnings(log *slog.Logger) *Warnings {
	return &Warnings{log: log, past: make(map[string]warning)}
}

// Warn logs err under message, which must be a constant, unless that was done just now.
func (w *Warnings) Warn(ctx context.Context, message string, err error, attrs ...any) {
	last, now := w.past[message], time.Now()
	if !last.at.IsZero() && now.Sub(last.at) < warnPeriod {
		last.skipped++
		w.past[message] = last
		return
	}
	w.past[message] = warning{at: now}
	attrs = append(attrs, "error", err)
	if last.skipped > 0 {
		attrs = append(attrs, "skipped", last.skipped)
	}
	w.log.WarnContext(ctx, message, attrs...)
}
