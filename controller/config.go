package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/internal/problems"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Config configures a [Controller]. The zero value is ready for use.
//
// A panic of ShardKey, or of the method Expires of one of Expectations, counts as a panic of the reconcile: see [Outcome]. GaveUp and
// [Hooks] document what their panics do. A panic of a function in Queue, or of its RateLimiter, is logged, and [workqueue.Config] says what
// it counts as. A panic of the method Notify of Expectations, or of the function of [Handles], is one of Run.
type Config[K comparable] struct {
	// Workers is the number of keys that are reconciled concurrently. Defaults to 1. [Controller.SetWorkers] changes it.
	Workers int

	// Queue configures the queue of keys: RateLimiter, the backoff after a failure; MaxAttempts and MaxElapsed, after which a
	// key is parked; Debounce; Group and GroupLimit; DispatchLimit, how fast reconciles begin (a key that is paused, held, or of
	// another replica costs no token); Aging; and Hooks, for metrics such as workqueue_adds_total. In a controller, MaxElapsed also limits how long a key may be unfinished, counted from the first
	// reconcile that failed or did not finish. Do not share a RateLimiter between controllers; a DispatchLimit may be shared.
	// Name must be empty: the queue has the name of the controller. RememberFailures must be zero: a controller remembers the failures of a
	// key until it succeeds or is parked, however long it is paused, held, or unfinished in between. Timestamps are always on. Logger
	// defaults to the Logger of the controller.
	Queue workqueue.Config[K]

	// Background is the priority of keys from initial lists, resyncs, and [Controller.Acquired]. If the priority of a watch is lower, its
	// initial list has that one. A change raises such a key to the priority of the watch, which is 0 by default. Background should be
	// negative. Defaults to -1. A positive value disables this: the priority is 0.
	Background int

	// Resync is the period in which every key is reconciled once without an event, for an actual state that other programs change. Each key
	// has its own random moment in the period. These are the keys of all objects that pass Where of a watch made by [For], [Owns], or
	// [Watches], and all parked keys. A parked key is revived with a whole budget, as by [Controller.Add], since what has failed may work now.
	// [Watch.When] does not apply. Zero means never.
	Resync time.Duration

	// ShardKey maps a key to the text that determines its slot, if replicas share the keys: see [Controller.Share]. It must be the
	// same in all replicas. Keys with the same text, such as all keys of a tenant, have the same slot. Defaults to fmt.Sprint.
	ShardKey func(K) string

	// Expectations delay a key until the cache shows the effects of its last reconcile. The controller asks all of them before each
	// reconcile. A waiting key is held until the expected event arrives, or until the expectation expires, which the controller logs. When
	// an expectation expires is its own affair: those of package expectations count the time from the call that expects something.
	// Events reach expectations through [Handles], or through [informer.Informer.OnVersion]. When the object of a key is deleted, that is, no
	// informer of a [For] has it anymore, the controller calls DeleteExpectations of those that have this method, as all types of package
	// expectations do: the reconcile of a deletion does not wait for events of children.
	Expectations []Expectations[K]

	// CancelSuperseded cancels a reconcile when its key is added again: its context ends, and the key is reconciled again at
	// once, without a backoff, or after Queue.Debounce. The outcome is Superseded. Initial lists, resyncs, Acquired, and WaitReconciled
	// cancel nothing. After eight cancellations in a row, the next reconcile of the key is not canceled. Events of the reconcile's own
	// writes cancel it too, unless When excludes them, as store.GenerationChanged does.
	CancelSuperseded bool

	// GaveUp is called before a key is parked, with the error of its last attempt. Use it to record in the status that the key is no longer
	// retried. No reconcile of the key runs in the meantime. The context is like that of a reconcile: it has the fence of the leader, and
	// ends after Timeout. If GaveUp returns an error or panics, the key is not parked. The key is reconciled again after its backoff or the
	// delay of that error. If this Run stops, or the write of GaveUp was fenced, the next Run reconciles the key. The budget stays spent: if
	// the next attempt fails too, GaveUp is called again, however long after. An event that arrives then, or during a call of GaveUp, revives
	// the key, as if it were already parked.
	//
	// The write of GaveUp does not revive the key if it is made through a store.Store, under the context of GaveUp: see [Outcome]. A table
	// of your own that has the status in the watched rows reports that write like a change by anybody else. Then say with [Watch.When]
	// which columns are intent, or the key never stays parked:
	//
	//	controller.For(rows).When(func(old, new Row) bool { return old.Wanted != new.Wanted })
	GaveUp func(ctx context.Context, key K, err error) error

	// Timeout limits a reconcile: its context ends after this time. If it returns an error then, its outcome is TimedOut. Zero
	// means no limit.
	Timeout time.Duration

	// Reasons records why each event of a [Watch] adds its keys, for Info, Logger, and Inspect: "apps updated". It costs a clock
	// read per event, and up to a kilobyte per waiting key. Errors are recorded in any case.
	Reasons bool

	// StuckAfter is the time after which Check returns an error if a reconcile has been in flight all that time, if keys were ready all that
	// time and no reconcile was in flight or has ended, or if a cache has waited all that time for a function such as that of [Watch.Where]. It
	// must be longer than the longest reconcile, with its GaveUp. Zero means never.
	StuckAfter time.Duration

	// SilentAfter is the time of silence of a source after which Check returns an error for its informer: see [informer.Informer.Stale]. A
	// source that is connected and idle is not silent. Zero means never.
	SilentAfter time.Duration

	// DrainTimeout limits the stop of a Run whose context has ended. At the limit, the contexts of the reconciles in flight end,
	// and the remaining keys wait for the next Run. Defaults to 30 s.
	DrainTimeout time.Duration

	// DrainOnStop makes a stop also reconcile the keys that are ready, and those in their quiet time (Queue.Debounce). By default, a stop
	// only finishes the reconciles that are in flight: a rolling deployment should not wait for a backlog, and no key is lost, because the
	// next Run, in this process or another, lists all objects. Set DrainOnStop if keys come from [Controller.Add] alone, such as those of a
	// webhook, which no list brings back.
	DrainOnStop bool

	// Reads are informers whose caches the reconcile function reads and that are not inputs. They are treated like the informers of the
	// inputs: the manager runs them, and no worker starts before they have synced. A cache that is neither here nor in an input may still
	// be empty when reconcile reads it.
	Reads []Informer

	// StaleReads lets a key be reconciled again before the caches show the writes of its last reconcile. By default, a write to a
	// store.Store under the context of reconcile holds the key. The hold ends when each informer that mirrors the kind of the object has
	// seen the version of the write, or 10 s after reconcile, and GaveUp if it was called, have returned. So a transaction that waits for a
	// lock may take any time. If the key is then reconciled although a cache still lacks the write, however long after, the controller logs
	// a warning with the cache, the version, and the time since the write's reconcile has ended. A write to a kind that no informer mirrors
	// does not hold the key. Set StaleReads if reconcile reads only from stores.
	StaleReads bool

	// SyncTimeout is the longest time that a Run waits until its informers have synced and its watches have mapped the initial
	// objects, and then, under a leadership, until its caches have caught up. Defaults to 2 min. Under a manager, the informers have synced
	// before Run is called: there, SyncTimeout of the manager's Config limits their lists, and this one the mapping and the catching up.
	SyncTimeout time.Duration

	// Logger receives failed reconciles, and is the base of the loggers that [Logger] returns. Defaults to slog.Default().
	Logger *slog.Logger

	// Hooks observe the controller.
	Hooks Hooks[K]
}

// Expectations tracks the keys whose last reconcile the cache does not show yet. The types of package expectations implement it. Its
// methods must be safe for concurrent use.
type Expectations[K comparable] interface {
	// Expires reports whether key must wait, and when the wait expires. The zero time means never.
	Expires(key K) (at time.Time, waiting bool)

	// Notify registers f until stop is called. If Expires has reported a key as waiting, Notify calls f, without locks, as soon as the key
	// need not wait anymore. It does not call f when the wait expires.
	Notify(f func(key K)) (stop func())
}

func (c Config[K]) withDefaults() Config[K] {
	c.Workers = cmp.Or(c.Workers, 1)
	c.Background = min(cmp.Or(c.Background, -1), 0)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.SyncTimeout = cmp.Or(c.SyncTimeout, 2*time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Reads = slices.Clone(c.Reads)
	if c.ShardKey == nil {
		c.ShardKey = keyText[K]
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
	if c.Queue.RememberFailures != 0 {
		errs = append(errs, fmt.Errorf("Config.Queue.RememberFailures is %v, must be 0: a controller remembers the failures of a key until it "+
			"succeeds or is parked", c.Queue.RememberFailures))
	}
	if c.Queue.RateLimiter != nil && isNil(c.Queue.RateLimiter) {
		errs = append(errs, fmt.Errorf("Config.Queue.RateLimiter is a nil %T", c.Queue.RateLimiter))
	}
	return problems.Join(errs...)
}

// notNegative returns an error that names the field if n is negative.
func notNegative[N int | time.Duration](field string, n N) error {
	if n < 0 {
		return fmt.Errorf("%s is %v, must not be negative", field, n)
	}
	return nil
}
