package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Config is the configuration of a [Controller]. The zero value is ready for use. What is not configured costs nothing.
type Config[K comparable] struct {
	// Workers is the number of keys that are reconciled at once. Defaults to 1. [Controller.SetWorkers] changes it.
	Workers int

	// Queue configures the queue of the keys: RateLimiter, the backoff after a failure; MaxAttempts and MaxElapsed, after which a
	// key is parked; Debounce; Group and GroupLimit; DispatchLimit, how fast reconciles begin; Aging; and Hooks, from which
	// metrics such as workqueue_adds_total are made. In a controller MaxElapsed also limits how long a key may be unfinished,
	// counted from the first reconcile that failed or did not finish. Do not share a RateLimiter between controllers; a
	// DispatchLimit may be shared. Name has to stay empty, since the controller gives its own; Timestamps are always on; Logger
	// defaults to that of the controller.
	Queue workqueue.Config[K]

	// Background is the priority of what is no news: objects that are there when a Run begins, and those that a resync repeats.
	// News of such a key raises it to the priority of the watch, which is 0 by default. Background should be negative.
	// Defaults to -1. If it is positive, there is no difference: keys are reconciled in the order in which they came.
	Background int

	// Resync is the time after which every key is reconciled again, although nothing has happened: a second look at a world that
	// others change. Each key has a random turn in each period, so they are spread over it. The keys are those of all objects that
	// count for a watch of [For], [Owns], or [Watches], and those that are parked. A parked key gets one attempt, not a whole
	// budget. When cannot cancel a resync. Zero is never.
	Resync time.Duration

	// ShardKey returns the text that says which slot a key has, if replicas share the keys: see [Controller.Share]. It must be the
	// same in all replicas. Keys with the same text are in the same slot: those of one tenant, say. Defaults to what fmt.Sprint
	// makes of the key.
	ShardKey func(K) string

	// Expectations make a key wait until the cache shows what its last reconcile has done. Before each reconcile all of them
	// are asked. A key that waits is held; the event for which it waits releases it, or the time at which it expires, which
	// is said in the log. Events reach them through [Handles], or through the OnVersion of an informer.
	Expectations []Expectations[K]

	// CancelSuperseded makes a key that is added while it is reconciled end that reconcile: its context ends with the cause
	// ErrSuperseded, and the key is reconciled again at once, without a backoff. What is no news (see Background) does not.
	// After eight in a row the next reconcile of the key is left in peace. The events of what a Reconcile itself writes end it
	// too, unless When leaves them out, as store.GenerationChanged does.
	CancelSuperseded bool

	// GaveUp is called with a key that is to be parked and the error of its last attempt, which is the place to write into its
	// status that nothing tries it again. The key is still in hand, so no other reconcile of it runs, and the context is that of
	// a reconcile: it has the fence of the leader, and ends after Timeout. If GaveUp returns an error or panics, the key is not
	// parked: it is reconciled again after its backoff, or the delay of that error, or by the next Run if this one has to stop, and if that attempt fails
	// too, GaveUp is called again. An event that comes meanwhile revives the key, as if it was parked already.
	GaveUp func(ctx context.Context, key K, err error) error

	// Timeout is the time after which the context of a reconcile ends, with a cause that wraps ErrTimeout. Zero means
	// no limit.
	Timeout time.Duration

	// Reasons makes each event of a [Watch] note why its keys are added, for Info, Logger and Snapshot: "apps updated". It
	// costs a look at the clock for each event, and up to a kilobyte for each key that waits. Errors are noted in any case.
	Reasons bool

	// StuckAfter is the time after which Check returns an error if there has been something to do all the time, and no
	// reconcile has ended. It should be longer than the longest reconcile. Zero is never.
	StuckAfter time.Duration

	// SilentAfter is the time after which Check returns an error if a source is silent: see [informer.Informer.Stale]. A
	// source that is connected and idle is not. Zero is never.
	SilentAfter time.Duration

	// DrainTimeout is the longest time for which a Run that is told to stop goes on with what it has to do. After that
	// the contexts of the reconciles in flight end, and what is left waits for the next Run. Defaults to 30 s.
	DrainTimeout time.Duration

	// Reads are the informers whose caches reconcile only reads. They are sources of the controller, as the informers of its
	// inputs are: the manager runs them, and no worker starts before they have synced. A cache that reconcile reads and that is
	// neither here nor in an input may be empty.
	Reads []Source

	// StaleReads makes a key be reconciled again although a cache may not show yet what its last reconcile has written. By default
	// the key is held: after a write to a store.Store under the context of reconcile, until each source that mirrors the kind of
	// the object has seen the version of the write, but for 10 s at most. A write to a kind that no source mirrors is not waited for.
	// Set it if reconcile reads from the stores alone.
	StaleReads bool

	// SyncTimeout is the longest time that a Run waits for its sources, and for its watches to have looked at all that is
	// there. Defaults to 2 min.
	SyncTimeout time.Duration

	// Logger receives failed reconciles, since nobody else does, and is the base of what [Logger] returns. Defaults to
	// slog.Default().
	Logger *slog.Logger

	// Hooks observe the controller.
	Hooks Hooks[K]
}

func (c Config[K]) withDefaults() Config[K] {
	c.Workers = cmp.Or(c.Workers, 1)
	c.Background = min(cmp.Or(c.Background, -1), 0)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.SyncTimeout = cmp.Or(c.SyncTimeout, 2*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Reads = slices.Clone(c.Reads)
	if c.ShardKey == nil {
		c.ShardKey = func(key K) string { return fmt.Sprint(key) }
	}
	c.Expectations = slices.Clone(c.Expectations)
	c.Queue.Timestamps = true
	c.Queue.Logger = cmp.Or(c.Queue.Logger, c.Logger)
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config[K]) validate() error {
	errs := []error{
		notNegative("Config.Workers", c.Workers),
		notNegative("Config.Queue.MaxAttempts", c.Queue.MaxAttempts),
		notNegative("Config.Queue.MaxElapsed", c.Queue.MaxElapsed),
		notNegative("Config.Resync", c.Resync),
		notNegative("Config.Timeout", c.Timeout),
		notNegative("Config.StuckAfter", c.StuckAfter),
		notNegative("Config.SilentAfter", c.SilentAfter),
		notNegative("Config.DrainTimeout", c.DrainTimeout),
		notNegative("Config.SyncTimeout", c.SyncTimeout),
	}
	for i, s := range c.Reads {
		if isNil(s) {
			errs = append(errs, fmt.Errorf("Config.Reads[%d] is nil", i))
		}
	}
	for i, e := range c.Expectations {
		if isNil(e) {
			errs = append(errs, fmt.Errorf("Config.Expectations[%d] is nil", i))
		}
	}
	if c.Queue.Name != "" {
		errs = append(errs, fmt.Errorf("Config.Queue.Name is %q, must be empty: the queue has the name of the controller", c.Queue.Name))
	}
	if c.Queue.RateLimiter != nil && isNil(c.Queue.RateLimiter) {
		errs = append(errs, fmt.Errorf("Config.Queue.RateLimiter is a nil %T", c.Queue.RateLimiter))
	}
	return errors.Join(errs...)
}

// notNegative returns an error that names the field if n is negative.
func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
