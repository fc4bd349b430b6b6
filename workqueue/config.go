package workqueue

import (
	"cmp"
	"log/slog"
)

// Config is the configuration of a [Queue]. The zero value is ready for use.
type Config[K comparable] struct {
	// Name stands in the log beside what goes wrong. Defaults to "workqueue".
	Name string

	// RateLimiter gives the delays of AddRateLimited. Do not share one between queues: a Forget in one would reset
	// the other. Defaults to DefaultControllerRateLimiter.
	RateLimiter RateLimiter[K]

	// Logger receives misuse of the queue that cannot be returned to the caller. Defaults to slog.Default().
	Logger *slog.Logger

	_ [0]func() // not comparable, so that a field of any type can be added
}

func (c Config[K]) withDefaults() Config[K] {
	c.Name = cmp.Or(c.Name, "workqueue")
	if c.RateLimiter == nil {
		c.RateLimiter = DefaultControllerRateLimiter[K]()
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}
