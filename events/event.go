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
	Message string // a sentence for people, at most 1024 bytes

	Count       int       // the number of calls; at least 1
	First, Last time.Time // the times of the first and the last call
}

// Type is the type of an event.
type Type int

const (
	Normal  Type = iota + 1 // something was done
	Warning                 // something could not be done, and a person should investigate
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

// SlogSink returns a Config.Sink that logs every event with the message "event", and with its reference, reason, message, and count
// as attributes. The level is Info for Normal, and Warn for Warning. A nil logger means slog.Default().
func SlogSink(logger *slog.Logger) func(Event) {
	logger = cmp.Or(logger, slog.Default())
	return func(e Event) {
		level := slog.LevelInfo
		if e.Type == Warning {
			level = slog.LevelWarn
		}
		logger.LogAttrs(context.Background(), level, "event", append(attrsOf(&e), slog.Int("count", e.Count))...)
	}
}

// attrsOf returns what the log says about an event.
func attrsOf(e *Event) []slog.Attr {
	return []slog.Attr{
		slog.String("kind", e.About.Kind), slog.String("key", e.About.Key), slog.String("uid", e.About.UID),
		slog.String("reason", e.Reason), slog.String("message", e.Message),
	}
}
