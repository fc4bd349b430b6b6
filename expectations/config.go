package expectations

import (
	"cmp"
	"log/slog"
	"time"
)

// Config is the configuration of [Counted], [Tracked], [Versions], and [Values]. Its zero value can be used.
type Config[K comparable] struct {
	// Name identifies the expectations in the log.
	Name string

	// TTL is the time after which expectations expire, because an event was lost or an expectation was wrong. It begins with the call that
	// expects something, even if the write comes later: so choose a longer time than the writes of a reconcile take. Defaults to 5 minutes.
	// If it is negative, expectations never expire.
	TTL time.Duration

	// OnExpired is called for each key whose expectations have expired, without locks, in the goroutine of the next call for
	// any key. It usually adds the key to the queue. Defaults to a warning in the log, with the time since the TTL began, and the version
	// that a Versions still waits for.
	OnExpired func(key K)

	// Logger receives the warnings if OnExpired is nil. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config[K]) withDefaults() Config[K] {
	c.TTL = cmp.Or(c.TTL, 5*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}
