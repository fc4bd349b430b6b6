package controller

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Config is the configuration of a [Controller]. The zero value is ready for use. What is not configured costs nothing.
type Config[K comparable] struct {
	// Workers is the number of keys that are reconciled at once. Defaults to 1. [Controller.SetWorkers] changes it.
	Workers int

	// RateLimiter gives the delay before a key that failed is tried again. Do not share one between controllers. Defaults
	// to workqueue.DefaultControllerRateLimiter: 5 ms, doubled with each failure, at most 1000 s.
	RateLimiter workqueue.RateLimiter[K]

	// MaxAttempts is the number of attempts that a key gets. When the last one fails too, the key is parked: see
	// [Controller.Parked]. Zero is no limit.
	MaxAttempts int

	// MaxElapsed is the time that a key gets from its first failure on: one that fails after that is parked. Zero is no
	// limit.
	MaxElapsed time.Duration

	// LowPriority is the priority of what is no news: what is there when a Run begins, and what a resync tells again. A live
	// event raises such a key to 0. It should be below 0. Defaults to -1. Positive is none: then all keys are handed out in
	// the order in which they came.
	LowPriority int

	// Ageing is the wait that is worth one priority: a key is overtaken by keys of a priority that is p higher only if these
	// became ready within p times Ageing after it. Defaults to 10 s. Negative is none.
	Ageing time.Duration

	// HandOut limits how fast reconciles begin. Controllers that call the same API may share one. A key that it does not let
	// through yet stays in line and holds up no worker; no token is reserved for it, so the next token goes to the key
	// that is first in line by then, of whichever controller. Nil is no limit.
	HandOut *rate.Limiter

	// Gate decides whether a reconcile may begin, such as a [Breaker] for an API that several controllers call. The controller
	// puts a key back that the gate refuses, for as long as the gate says. Nil lets everything through.
	Gate Gate

	// Expectations make a key wait until the cache shows what its last reconcile has done. Before each reconcile all of them
	// are asked. A key that waits is held; the event for which it waits releases it, or the time at which it expires, which
	// is said in the log. Wire events to them by [WatchHandler], or by ObserveVersions.
	Expectations []Expectations[K]

	// CancelSuperseded makes a key that is added while it is reconciled end that reconcile: its context ends with the cause
	// ErrSuperseded, and the key is reconciled again at once, without a backoff. What is no news (see LowPriority) does not.
	// After eight in a row the next reconcile of the key is left in peace. The events of what a Reconcile itself writes end it
	// too, unless a filter such as GenerationChanged leaves them out.
	CancelSuperseded bool

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
	c.MaxAttempts = cmp.Or(c.MaxAttempts, math.MaxInt) // which makes the queue count them
	c.LowPriority = min(cmp.Or(c.LowPriority, -1), 0)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.SyncTimeout = cmp.Or(c.SyncTimeout, 2*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.WaitFor = slices.Clone(c.WaitFor)
	c.Expectations = slices.Clone(c.Expectations)
	if c.RateLimiter == nil {
		c.RateLimiter = workqueue.DefaultControllerRateLimiter[K]()
	}
	return c
}

// validate returns an error that names each field that is out of its bounds.
func (c Config[K]) validate() error {
	errs := []error{
		notNegative("Config.Workers", c.Workers),
		notNegative("Config.MaxAttempts", c.MaxAttempts),
		notNegative("Config.MaxElapsed", c.MaxElapsed),
		notNegative("Config.Timeout", c.Timeout),
		notNegative("Config.StuckAfter", c.StuckAfter),
		notNegative("Config.SilentAfter", c.SilentAfter),
		notNegative("Config.DrainTimeout", c.DrainTimeout),
		notNegative("Config.SyncTimeout", c.SyncTimeout),
	}
	for i, s := range c.WaitFor {
		if isNil(s) {
			errs = append(errs, fmt.Errorf("Config.WaitFor[%d] is nil", i))
		}
	}
	for i, e := range c.Expectations {
		if isNil(e) {
			errs = append(errs, fmt.Errorf("Config.Expectations[%d] is nil", i))
		}
	}
	if c.Gate != nil && isNil(c.Gate) {
		errs = append(errs, fmt.Errorf("Config.Gate is a nil %T", c.Gate))
	}
	if c.RateLimiter != nil && isNil(c.RateLimiter) {
		errs = append(errs, fmt.Errorf("Config.RateLimiter is a nil %T", c.RateLimiter))
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
