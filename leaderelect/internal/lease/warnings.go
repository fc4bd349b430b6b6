package lease

import (
	"context"
	"log/slog"
	"time"
)

// warnPeriod is the minimum time between two warnings with the same message.
const warnPeriod = 10 * time.Second

// Warnings logs failures that repeat every RetryPeriod, each message at most once per warnPeriod. Hooks report all of
// them, and Stats has the last one. A Warnings belongs to one goroutine.
type Warnings struct {
	log  *slog.Logger
	past map[string]warning // by message
}

// warning is the history of one message.
type warning struct {
	at      time.Time // when it was logged
	skipped int       // how often it was suppressed since
}

// NewWarnings returns warnings that have logged nothing yet.
func NewWarnings(log *slog.Logger) *Warnings {
	return &Warnings{log: log, past: make(map[string]warning)}
}

// Warn logs err with message, which must be a constant, unless that message was logged within warnPeriod.
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
