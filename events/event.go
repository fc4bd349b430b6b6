package events

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/store"
)

// Event is something that happened to an object, once or several times.
type Event struct {
	About   store.Ref // its UID may be empty
	Type    Type
	Reason  string // one word in CamelCase
	Message string // a sentence for people, of 1024 bytes at most

	Count       int       // how often it happened; at least 1
	First, Last time.Time // when it happened first and last
}

// Type is a sort of event.
type Type int

const (
	Normal  Type = iota + 1 // all is well: what was done
	Warning                 // somebody should look: what could not be done
)

// String returns the name of t.
func (t Type) String() string {
	switch t {
	case Normal:
		return "Normal"
	case Warning:
		return "Warning"
	default:
		return "Unknown"
	}
}

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
