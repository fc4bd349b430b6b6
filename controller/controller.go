package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
	"github.com/setpoint-go/setpoint/internal/reconcile"
	"github.com/setpoint-go/setpoint/wait"
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
	inputs     *inputs[K]
	schedule   *jitteredSchedule[K] // of resyncs; nil without Config.Resync
	budget     outcome.Budget       // the queue has none: Config.GaveUp comes before a key is parked
	tooLong    error                // the cause of a context that Config.Timeout ended; no other controller has it
	notDrained error                // the cause of a context that Config.DrainTimeout ended; no other controller has it

	queue   *workqueue.Queue[K] // of all runs; never shut down. Keys are added through pending
	pending *pending[K]
	cancels *cancelable[K]  // nil unless Config.CancelSuperseded
	caches  *storeCaches[K] // the informers of stores

	slots       atomic.Pointer[Slots] // nil unless the keys are shared
	misplacedBy sync.Map              // the watches of which misplaced has logged an object, by name

	waiters    waiters[K]
	unfinished unfinishedKeys[K]
	own        ownWrites[K]

	ids      atomic.Uint64 // the number of the last reconcile
	started  time.Time
	ended    atomic.Int64 // when the last reconcile ended: nanoseconds after started
	counters counters
	history  history[K]

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. running excludes connected, and steps > 0.
	//  2. working and stopDrain are not nil only while running.
	//  3. inputs are started only while running or connected.
	running         bool
	connected       bool // from Connect to disconnect
	steps           int  // calls of Step in progress
	workers         int
	paused          bool
	interruptedKeys []K                // the keys whose reconciles this Run has interrupted at the end of its drain
	working         *workers[K]        // nil before the caches have synced
	stopDrain       context.CancelFunc // ends the wait of a drain; nil without a drain

	takingOver time.Time // since when a Run waits for its caches to catch up; zero if none does
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
		c.schedule = newJitteredSchedule[K](cfg.Resync)
	}
	if cfg.CancelSuperseded {
		c.cancels = newCancelable[K]()
	}
	c.tooLong = limitCause{&limitError{errTimeout, cfg.Timeout}}
	c.notDrained = limitCause{&limitError{ErrDrainTimeout, cfg.DrainTimeout}}
	var err error
	queue := cfg.Queue
	c.budget = outcome.Budget{Attempts: queue.MaxAttempts, Elapsed: queue.MaxElapsed}
	queue.Name, queue.MaxAttempts, queue.MaxElapsed = name, 0, 0 // the controller counts: GaveUp comes before a key is parked
	queue.RememberFailures = -1                                  // a key that is held, or waits for an event, is not in the queue
	if c.queue, err = workqueue.New(queue); err != nil {
		return nil, fmt.Errorf("controller: new %q: Config.Queue: %w", name, err)
	}
	c.own.add = c.add
	var feeds []*feed[K]
	for _, in := range inputs {
		f := in.feed(c)
		if f.lanes && queue.GroupLimit > 0 {
			const text = "controller: new %q: Config.Queue.GroupLimit cannot be set, because the watch of %q has ChangedBy or Lane"
			return nil, fmt.Errorf(text, name, f.informer.Name())
		}
		feeds = append(feeds, f)
	}
	c.inputs = newInputs(feeds, cfg.Reads)
	c.caches = newStoreCaches[K](c.inputs.informers)
	for _, f := range feeds {
		if other := c.caches.misspelled(f.owner); other != nil {
			return nil, fmt.Errorf("controller: new %q: Owns has the kind %q, and the informer %q has %q", name, f.owner, other.name, other.clock.Kind)
		}
	}
	c.pending = newPending(c.queue, cfg.Expectations, unreadOf(c.inputs.feeds), c.caches)
	c.pending.limited = queue.GroupLimit > 0
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
	// priorities, the higher one counts. A key that is paused, held, or left to the next Run keeps its priority.
	Priority int

	// Group is the name of a group of keys, instead of that of Config.Queue.Group: groups take turns. See [workqueue.AddOptions]. It cannot be used
	// with Config.Queue.GroupLimit: AddWith panics.
	Group string

	// Reason tells people why the key is added: see [Info].
	Reason string

	// Trace is the trace context of the caller, in the form of W3C: the text of the header traceparent and, if there is one, a
	// space and the text of the header tracestate. [Hooks.Trace] gets it when the key is reconciled. Without that hook, Trace is
	// ignored.
	Trace string
}

// AddWith is the general form of [Controller.Add].
func (c *Controller[K]) AddWith(key K, opts AddOptions) {
	if opts.Group != "" && c.cfg.Queue.GroupLimit > 0 {
		panic("controller: AddWith: Group cannot be set together with Config.Queue.GroupLimit")
	}
	c.add(key, opts, true)
}

// addFrom adds key for an input.
func (c *Controller[K]) addFrom(key K, a addition) {
	if a.change.version > 0 && c.own.keepBack(key, a) {
		if a.news && c.cancels != nil {
			if supersede := c.cancels.of(key); supersede != nil {
				supersede(errSuperseded) // the key comes back when the reconcile has ended
			}
		}
		return
	}
	c.add(key, a.AddOptions, a.news)
}

// dropExpectations ends what is expected for key, if no object of key is left: its reconcile must not wait for events of children that may never
// come.
func (c *Controller[K]) dropExpectations(key K) {
	for i, e := range c.cfg.Expectations {
		f, ok := e.(interface{ DeleteExpectations(key K) })
		if !ok || c.inputs.contains(key) {
			continue
		}
		if err := wait.Call(context.Background(), func(context.Context) error {
			f.DeleteExpectations(key)
			return nil
		}); err != nil {
			c.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "DeleteExpectations panicked", slog.String("controller", c.name),
				slog.Any("key", key), slog.Int("expectations", i+1), slog.Any("error", err))
		}
	}
}

// writes and wrote are called around each write under the context of a reconcile: by a store, and by informer.ReportWrite.
func (c *Controller[K]) writes(key K, clock reconcile.Clock, hasEnded func() bool) {
	if c.caches.mirrors(clock) {
		c.own.writes(key, hasEnded)
	}
}

func (c *Controller[K]) wrote(key K, clock reconcile.Clock, w reconcile.Write) {
	if w.Version > 0 && !c.cfg.StaleReads {
		c.caches.wrote(key, clock, w.Version)
	}
	if c.caches.mirrors(clock) {
		c.own.wrote(key, w)
	}
}

// add adds key. If it is news, it may end a reconcile of key in flight.
func (c *Controller[K]) add(key K, opts AddOptions, news bool) {
	checkKey(key) // here, because a key that is left for later reaches the queue in another goroutine
	if opts.Trace != "" && c.cfg.Hooks.Trace != nil {
		c.pending.causes.note(key, opts.Trace)
	}
	var supersede context.CancelCauseFunc
	if news && c.cancels != nil {
		supersede = c.cancels.of(key) // before the add: a reconcile that begins after it sees the change
	}
	c.revive(key)
	if left := c.pending.add(key, Lane{opts.Priority, opts.Group}, opts.Reason); !left && supersede != nil {
		supersede(errSuperseded) // after the add, so that key comes back
	}
	c.revive(key) // GaveUp may have failed before the add
}

// revive gives key a whole budget if it was to be parked, and is not because Config.GaveUp has failed. The queue itself revives a parked key.
func (c *Controller[K]) revive(key K) {
	if c.unfinished.revive(key) {
		c.queue.Forget(key)
	}
}

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
