package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Controller calls a [Reconciler] for every key that is added to it, by [Controller.Add] or by a [Watch]. Different keys
// are reconciled at once, up to Config.Workers; one key is never reconciled twice at once; a key that is added while it
// is reconciled is reconciled again.
//
// Run does it until its context ends. It may be called again after it returned, once for each term of leadership, say.
// ProcessNext does it one key at a time, for tests. Keys that are added while neither is called wait.
//
// All methods are safe for concurrent use.
type Controller[K comparable] struct {
	name       string
	reconciler Reconciler[K]
	cfg        Config[K]
	tooLong    error // the cause of a context that Config.Timeout ended; no other controller has it
	notDrained error // the cause of a context that Config.DrainTimeout ended; no other controller has it
	ledger     *ledger[K]
	ids        atomic.Uint64 // the number of the last reconcile

	// intake is the queue that takes what is added. A Run works on it, and puts an empty one in its place when it has
	// to stop.
	intake atomic.Pointer[workqueue.Queue[K]]

	mu sync.Mutex
	// mu guards the following. Invariant: running and steps > 0 exclude each other.
	running  bool
	steps    int                 // calls of ProcessNext under way
	draining *workqueue.Queue[K] // the queue of a Run that has replaced the intake, else nil
	watches  []watch
}

// New returns a controller that calls r. The name stands in logs and errors. It returns an error if the name is empty, r
// is nil, or a field of cfg is out of its bounds.
func New[K comparable](name string, r Reconciler[K], cfg Config[K]) (*Controller[K], error) {
	if name == "" {
		return nil, errors.New("controller: new: the name is empty")
	}
	if r == nil {
		return nil, fmt.Errorf("controller: new %q: the reconciler is nil", name)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("controller: new %q: Config.%w", name, err)
	}
	c := &Controller[K]{name: name, reconciler: r, cfg: cfg.withDefaults(), ledger: newLedger[K]()}
	c.tooLong = after(ErrTimeout, c.cfg.Timeout)
	c.notDrained = after(ErrDrainTimeout, c.cfg.DrainTimeout)
	c.intake.Store(c.newQueue())
	return c, nil
}

// Name returns the name that was given to New.
func (c *Controller[K]) Name() string { return c.name }

// Add makes key be reconciled. A key that waits already is reconciled once; one that is being reconciled is reconciled
// again. What is added while no Run is under way, or while one drains, waits for the next Run. Add does not block.
//
// Add panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) Add(key K) {
	for {
		q := c.intake.Load()
		q.Add(key)
		// A queue is shut down only after another has taken its place. So if q still is the intake, it took the key.
		if c.intake.Load() == q {
			return
		}
	}
}

// ProcessNext reconciles the key that waits longest, in the goroutine of the caller, and reports how it went. It does not
// wait: ok is false when no key is ready, or when ctx has ended. Keys come from Add, and from reconciles before that asked
// to be called again; the watches belong to Run, and caches are not waited for. ctx becomes the context of the reconcile,
// and ends it.
//
// It is the stepping form of Run, for tests that decide what happens when. ProcessNext panics while Run is under way.
func (c *Controller[K]) ProcessNext(ctx context.Context) (report Report[K], ok bool) {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		panic("controller: ProcessNext called while Run is under way")
	}
	c.steps++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.steps--
	}()

	if ctx.Err() != nil {
		return report, false
	}
	q := c.intake.Load()
	key, ok := q.TryGet()
	if !ok {
		return report, false
	}
	return c.process(ctx, q, key), true
}

func (c *Controller[K]) newQueue() *workqueue.Queue[K] {
	return workqueue.New(workqueue.Config[K]{Name: c.name, RateLimiter: c.ledger, Logger: c.cfg.Logger})
}
