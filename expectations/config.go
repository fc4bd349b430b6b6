package expectations

import (
	"cmp"
	"log/slog"
	"time"
)

// Config is the configuration of [Counted], [Tracked] and [Versions]. Its zero value can be used.
type Config[K comparable] struct {
	// Name tells several of them apart in the log.
	Name string

	// TTL is how long a key waits before its expectations count as met, because an event must have been lost or an
	// expectation must have been wrong. Defaults to 5 minutes. Negative: for ever.
	TTL time.Duration

	// OnExpired is called for each key whose expectations have expired, without locks, in the goroutine of whoever
	// calls a method next, whatever the key. Most often it adds the key to the queue. When it is nil, a warning is
	// logged.
	OnExpired func(key K)

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config[K]) withDefaults() Config[K] {
	c.TTL = cmp.Or(c.TTL, 5*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}
