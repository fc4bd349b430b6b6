package controller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/agenda"
	"github.com/setpoint-go/setpoint/controller/internal/attempt"
	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/controller/internal/mirror"
	"github.com/setpoint-go/setpoint/controller/internal/streak"
	"github.com/setpoint-go/setpoint/controller/internal/tally"
	"github.com/setpoint-go/setpoint/controller/internal/turns"
	"github.com/setpoint-go/setpoint/controller/internal/waiters"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Controller calls a reconcile function for each key that [Controller.Add] or an [Input] adds. Different keys are reconciled
// concurrently, up to Config.Workers; a key is never reconciled twice concurrently. A key that is added during its reconcile is
// reconciled again.
//
// Run reconciles until its context ends. It may be called again after it has returned, for example once per term of leadership.
// Connect, Ready, and Step reconcile one key at a time, for tests. Keys that are added between Runs wait.
//
// All methods are safe for concurrent use.
type Controller[K comparable] struct {
	name       string
	reconciler func(context.Context, K) (Result, error)
	cfg        Config[K]
	inputs     *input.Feeds[K]
	resyncs    *turns.Turns[K] // nil without Config.Resync
	budget     streak.Budget
	tooLong    error // the cause of a context that Config.Timeout ended; no other controller has it
	notDrained error // the cause of a context that Config.DrainTimeout ended; no other controller has it

	queue    *workqueue.Queue[K] // of all runs; never shut down. Keys are added through agenda
	agenda   *agenda.Agenda[K]
	flights  *streak.Flights[K]    // nil unless Config.CancelSuperseded
	mirrors  *mirror.Mirrors[K]    // the informers of stores
	attempts attempt.Controller[K] // what they share

	slots atomic.Pointer[Slots] // nil unless the keys are shared

	waiters waiters.Keys[K]
	streaks streak.Book[K]

	ids     atomic.Uint64 // the number of the last reconcile
	started time.Time
	ended   atomic.Int64 // when the last reconcile ended: nanoseconds after started
	tally   tally.Tally

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. running excludes connected, and steps > 0.
	//  2. working and stopDrain are not nil only while running.
	//  3. inputs are started only while running or connected.
	running   bool
	connected bool // from Connect to disconnect
	steps     int  // calls of Step in progress
	workers   int
	paused    bool
	working   *workers[K]        // nil before the caches have synced
	stopDrain context.CancelFunc // ends the wait of a drain; nil without a drain
}

// New returns a controller that calls reconcile for each key that the inputs or [Controller.Add] add. The name appears in logs
// and errors. New returns an error if the name is empty or a field of cfg is out of bounds. It panics if reconcile or an input
// is nil, or an input is a zero Watch.
//
// reconcile makes the actual state of one key equal to the desired state: it reads both and resolves the differences. Its result must not
// depend on how often or why it is called. With several workers, the controller calls it concurrently for different keys, but never for the
// same key.
//
// The context of reconcile ends when it must stop: see [Config.Timeout] and [Controller.Run]. [Controller.Run] does not return before
// reconcile does.
func New[K comparable](
	name string, reconcile func(context.Context, K) (Result, error), cfg Config[K], inputs ...Input[K],
) (*Controller[K], error) {
	if reconcile == nil {
		panic("controller: New called with a nil reconcile function")
	}
	for i, in := range inputs {
		if in == nil {
			panic(fmt.Sprintf("controller: New called with nil as input %d", i+1))
		}
	}
	if name == "" {
		return nil, errors.New("controller: new: the name is empty")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("controller: new %q: %w", name, err)
	}
	cfg = cfg.withDefaults()
	c := &Controller[K]{name: name, reconciler: reconcile, cfg: cfg, workers: cfg.Workers, started: time.Now()}
	if cfg.Resync > 0 {
		c.resyncs = turns.New[K](cfg.Resync)
	}
	if cfg.CancelSuperseded {
		c.flights = streak.NewFlights[K]()
	}
	c.tooLong = limitCause{&limitError{errTimeout, cfg.Timeout}}
	c.notDrained = limitCause{&limitError{ErrDrainTimeout, cfg.DrainTimeout}}
	var err error
	queue := cfg.Queue
	c.budget = streak.Budget{Attempts: queue.MaxAttempts, Elapsed: queue.MaxElapsed}
	queue.Name, queue.MaxAttempts, queue.MaxElapsed = name, 0, 0 // the controller counts: GaveUp comes before a key is parked
	if c.queue, err = workqueue.New(queue); err != nil {
		return nil, fmt.Errorf("controller: new %q: Config.Queue: %w", name, err)
	}
	to := &input.Target[K]{
		Name: name, Background: cfg.Background, Reasons: cfg.Reasons, Traces: cfg.Hooks.Trace != nil,
		Logger: cfg.Logger, Check: checkError,
		Add: func(key K, a input.Addition) { c.add(key, AddOptions{a.Priority, a.Reason, a.Trace}, a.News) },
	}
	var feeds []*input.Feed[K]
	for _, in := range inputs {
		feeds = append(feeds, in.feed(to))
	}
	c.inputs = input.NewFeeds(feeds, cfg.Reads)
	c.mirrors = mirror.New[K](c.inputs.Informers())
	var expected []agenda.Expectations[K]
	for _, e := range cfg.Expectations {
		expected = append(expected, e)
	}
	c.agenda = agenda.New(c.queue, expected, c.mirrors)
	c.attempts = attempt.Controller[K]{Name: name, Logger: cfg.Logger}
	if !cfg.StaleReads {
		c.attempts.Wrote = c.mirrors.Wrote
	}
	return c, nil
}

// Name returns the name that was given to New.
func (c *Controller[K]) Name() string { return c.name }

// Add adds key to the queue. A key that is already waiting is reconciled once. A key that is being reconciled is reconciled again. A parked
// key is revived. A key that is added between Runs, or while a Run drains, waits for the next Run. Add does not block.
//
// Add panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) Add(key K) { c.AddWith(key, AddOptions{}) }

// AddOptions are the options of [Controller.AddWith]. The zero value is that of Add.
type AddOptions struct {
	// Priority is the priority of the key: higher priorities are reconciled first. If a waiting key is added with two
	// priorities, the higher one counts.
	Priority int

	// Reason tells people why the key is added: see [Info].
	Reason string

	// Trace is the trace context of the caller, in the form of W3C: the text of the header traceparent and, if there is one, a
	// space and the text of the header tracestate. [Hooks.Trace] gets it when the key is reconciled. Without that hook, Trace is
	// ignored.
	Trace string
}

// AddWith is the general form of [Controller.Add].
func (c *Controller[K]) AddWith(key K, opts AddOptions) { c.add(key, opts, true) }

// add adds key. If it is news, it may end a reconcile of key in flight.
func (c *Controller[K]) add(key K, opts AddOptions, news bool) {
	checkKey(key) // here, because a key that is left for later reaches the queue in another goroutine
	if opts.Trace != "" && c.cfg.Hooks.Trace != nil {
		c.agenda.Causes.Note(key, opts.Trace)
	}
	if news {
		defer c.streaks.ClearProbe(key) // after the add, key has a whole budget
	}
	var supersede context.CancelCauseFunc
	if news && c.flights != nil {
		supersede = c.flights.UnderWay(key) // before the add: a reconcile that begins after it sees the change
	}
	if c.agenda.Add(key, opts.Priority, opts.Reason) && supersede != nil {
		supersede(errSuperseded) // after the add, so that key comes back
	}
}

// Snapshot describes every key that waits, is being reconciled, is parked, or has failed, as [workqueue.Queue.Snapshot] does. A key that is
// only held is not in the queue: [Controller.Inspect] describes all keys.
func (c *Controller[K]) Snapshot() []workqueue.KeyInfo[K] { return c.queue.Snapshot() }

// isNil reports whether v is nil, or a nil pointer or function in an interface.
func isNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Func, reflect.Pointer:
		return r.IsNil()
	}
	return false
}

// checkKey panics if key could not be found in a map again.
func checkKey[K comparable](key K) {
	if key != key { // a NaN. An interface that holds a slice panics in the comparison
		panic("controller: the key is not equal to itself")
	}
}
