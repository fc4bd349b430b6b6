package controller

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Config is the configuration of a [Controller]. The zero value is ready for use.
type Config[K comparable] struct {
	// Workers is the number of keys that are reconciled at once. Defaults to 1.
	Workers int

	// RateLimiter gives the delay before a key that failed is tried again. It outlives a Run; do not share one between
	// controllers. Defaults to workqueue.DefaultControllerRateLimiter.
	RateLimiter workqueue.RateLimiter[K]

	// Timeout is the time after which the context of a reconcile ends, with a cause that wraps ErrTimeout. Zero means
	// no limit.
	Timeout time.Duration

	// DrainTimeout is the longest time for which a Run that is told to stop goes on with what it has to do. After that
	// the contexts of the reconciles in flight end, and what is left waits for the next Run. Defaults to 30 s.
	DrainTimeout time.Duration

	// WaitFor names caches that must have synced before any worker runs, beside those of the informers that are
	// watched: those that Reconcile only reads.
	WaitFor []informer.Syncer

	// SyncTimeout is the longest time that a Run waits for the caches. Defaults to 2 min.
	SyncTimeout time.Duration

	// Logger receives failed reconciles, since nobody else does, and is the base of what [Logger] returns. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Hooks observe the controller.
	Hooks Hooks[K]
}

func (c Config[K]) withDefaults() Config[K] {
	c.Workers = cmp.Or(c.Workers, 1)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.SyncTimeout = cmp.Or(c.SyncTimeout, 2*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.WaitFor = slices.Clone(c.WaitFor)
	if c.RateLimiter == nil {
		c.RateLimiter = workqueue.DefaultControllerRateLimiter[K]()
	}
	return c
}

func (c Config[K]) validate() error {
	for i, s := range c.WaitFor {
		if s == nil {
			return fmt.Errorf("%s: element %d is nil", "WaitFor", i)
		}
	}
	return cmp.Or(
		notNegative("Workers", c.Workers),
		notNegative("Timeout", c.Timeout),
		notNegative("DrainTimeout", c.DrainTimeout),
		notNegative("SyncTimeout", c.SyncTimeout),
	)
}

func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s: %v is negative", field, n)
	}
	return nil
}
