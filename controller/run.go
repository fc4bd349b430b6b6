package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/controller/internal/crew"
	"github.com/setpoint-go/setpoint/controller/internal/input"
	"github.com/setpoint-go/setpoint/controller/internal/term"
	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/internal/pace"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Run connects the watches, waits until the caches have synced, and then reconciles keys until ctx ends. Then it drains, and
// returns when all its goroutines have ended.
//
// The context of a reconcile has the values of ctx but does not end with ctx, so that work in flight can finish. If ctx belongs to
// a leadership ([leaderelect.FromContext]) that is lost, the contexts of all reconciles end at once, and nothing is drained.
//
// When ctx ends, Run
//
//  1. removes its handlers from the informers,
//  2. leaves to the next Run all keys that wait for a retry or a RequeueAfter, are held, or are added from now on,
//  3. reconciles all keys that are ready, in flight, or were added while in flight, unless c is paused,
//  4. ends the contexts of its reconciles: after Config.DrainTimeout, with a cause that wraps [ErrDrainTimeout]; or with
//     the cause of its leadership, when that is lost or has drained for its own limit,
//  5. returns when every reconcile has returned. A reconcile that ignores its context delays Run.
//
// Run returns nil if ctx has ended and the drain is complete, or if the leadership was lost. It returns an error that
//
//   - names the keys that the drain left, and wraps [ErrDrainTimeout], or [leaderelect.ErrDrainTimeout] if the election allows
//     less time,
//   - names the caches that did not sync within Config.SyncTimeout,
//   - wraps [informer.ErrEnded] if an informer has ended before it has synced, or before Run connects its watches,
//   - wraps [ErrRunning] if c is in use.
//
// The next Run begins with the keys that this one left.
func (c *Controller[K]) Run(ctx context.Context) error {
	if !c.enter() {
		return fmt.Errorf("controller: run %q: %w", c.name, ErrRunning)
	}
	defer c.leave()
	if err := c.run(ctx); err != nil {
		return fmt.Errorf("controller: run %q: %w", c.name, err)
	}
	return nil
}

// enter reports whether Run may proceed, and marks c as running.
func (c *Controller[K]) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.connected || c.steps > 0 {
		return false
	}
	c.running = true
	return true
}

func (c *Controller[K]) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	c.working = nil
}

// run is Run without its guard.
func (c *Controller[K]) run(ctx context.Context) error {
	defer c.follow()() // until the last write of the drain
	syncers, stop, err := c.startInputs(ctx)
	if err != nil {
		return err
	}
	stopInputs := sync.OnceFunc(stop)
	defer stopInputs() // also after a panic of Expectations
	err = input.WaitForSync(ctx, syncers, c.cfg.SyncTimeout, after(errSyncTimeout, c.cfg.SyncTimeout))
	if err != nil || ctx.Err() != nil {
		return err
	}

	defer c.agenda.Start()()
	work, stopWork := term.Context(ctx)
	defer stopWork(nil)
	workers := c.startWorkers(work, stopWork)
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer term.StopWith(limit, stopWork)()
	stopInputs()
	c.agenda.Divert()
	c.drain(work)
	workers.Wait()

	cause, left := context.Cause(work), c.agenda.HandOver()
	switch {
	case len(left) == 0:
		return nil
	case cause == c.notDrained:
		return fmt.Errorf("%w: %s", after(ErrDrainTimeout, c.cfg.DrainTimeout), enumerate(left))
	case errors.Is(cause, leaderelect.ErrDrainTimeout):
		return fmt.Errorf("%w: %s", cause, enumerate(left))
	}
	return nil
}

// follow follows the caches that mirror stores, until stop is called.
func (c *Controller[K]) follow() (stop func()) {
	if c.cfg.StaleReads {
		return func() {}
	}
	return c.mirrors.Follow()
}

// startInputs starts the inputs, and returns what to wait for. stop ends them; it is nil after an error.
func (c *Controller[K]) startInputs(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	var beside func(context.Context, []informer.Syncer)
	if c.resyncs != nil {
		beside = c.resync
	}
	return c.inputs.Start(ctx, beside)
}

// resync adds each key again in its turn, until ctx ends: those that the inputs know, and those that are parked.
func (c *Controller[K]) resync(ctx context.Context, syncers []informer.Syncer) {
	if informer.WaitForSync(ctx, syncers...) != nil {
		return
	}
	c.resyncs.Run(ctx, func(add func(K)) {
		c.inputs.Present(add)
		for _, key := range c.queue.Parked() {
			add(key)
		}
	}, c.probe)
}

// probe adds key for a resync. A parked key gets one attempt, not a full budget: if that fails, the key is parked again, unless an event
// has arrived in the meantime.
func (c *Controller[K]) probe(key K) {
	if c.streaks.BeginProbe(key) {
		c.streaks.EndProbe(key, c.queue.DropParked(key)) // before the add, or the attempt might come first
	}
	opts := AddOptions{Priority: c.cfg.Background}
	if c.cfg.Reasons {
		opts.Reason = "resync"
	}
	c.add(key, opts, false)
}

// workers are those of one Run.
type workers[K comparable] struct {
	*crew.Crew[hand[K]]
	stop  context.CancelCauseFunc // ends the work, and the workers
	leads *leaderelect.Leadership // without it no reconcile may begin; nil if the work belongs to none
	began time.Time
	wait  func(reconcile context.Context) // of a simulation: returns when a reconcile may begin; nil outside a simulation
}

// hand is the state of one worker.
type hand[K comparable] struct {
	of      *workers[K]
	current atomic.Pointer[try[K]] // the reconcile in flight, or nil
	tries   []try[K]               // unused ones; only the worker reads and writes them
}

// triesAtOnce is how many tries a worker allocates together. A reference to one context keeps all of them in memory.
const triesAtOnce = 16

// newTry returns a try. Each is used once, since its context may outlive the reconcile.
func (h *hand[K]) newTry() *try[K] {
	if h == nil {
		return new(try[K])
	}
	if len(h.tries) == 0 {
		h.tries = make([]try[K], triesAtOnce)
	}
	t := &h.tries[0]
	h.tries = h.tries[1:]
	return t
}

// startWorkers starts the workers. They and their work end with ctx, which stop ends.
func (c *Controller[K]) startWorkers(ctx context.Context, stop context.CancelCauseFunc) *workers[K] {
	leads, _ := leaderelect.FromContext(ctx)
	w := &workers[K]{stop: stop, leads: leads, began: time.Now(), wait: pace.Of(ctx)}
	w.Crew = crew.New(ctx, func(s *crew.Seat[hand[K]]) {
		s.State.of = w
		c.work(ctx, s, &s.State)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working = w
	if !c.paused {
		w.Resize(c.workers)
	}
	return w
}

// drain waits until no key is ready or in flight, ctx ends, or the controller is paused. Then each worker ends after its current
// reconcile.
func (c *Controller[K]) drain(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.stopDrain = cancel; c.paused {
		cancel()
	}
	c.mu.Unlock()
	// An error means that ctx has ended, and there is nothing left to wait for.
	_ = c.queue.WaitIdle(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working.Close()
	c.stopDrain = nil
}

// seat is that of a worker: see [crew.Seat].
type seat interface {
	Stay() bool
	Take() context.Context
}

// work is a worker: it reconciles keys of the queue until its seat is withdrawn. The context of the reconciles is derived from ctx.
func (c *Controller[K]) work(ctx context.Context, s seat, h *hand[K]) {
	for s.Stay() {
		item, err := c.queue.Take(s.Take())
		if err != nil {
			continue
		}
		if ctx.Err() != nil { // it ended just as the key arrived
			c.agenda.Again(item.Key)
			item.Done()
			continue
		}
		c.process(ctx, item, h)
	}
}

// enumerate names the first few of keys.
func enumerate[K comparable](keys []K) string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys left: ", len(keys))
	for i, key := range keys[:min(most, len(keys))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, key)
	}
	if len(keys) > most {
		b.WriteString(", ...")
	}
	return b.String()
}

// Pause makes c begin no reconcile until [Controller.Resume]. Reconciles in flight continue, and so do watches, retries, and
// resyncs, which add keys. A Run that ends while c is paused leaves its keys to the next Run. A controller stays paused between
// Runs.
func (c *Controller[K]) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
	if c.working != nil {
		c.working.Resize(0)
	}
	if c.stopDrain != nil {
		c.stopDrain()
	}
}

// Resume ends a [Controller.Pause].
func (c *Controller[K]) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = false
	if c.working != nil {
		c.working.Resize(c.workers)
	}
}

// SetWorkers changes the number of keys that are reconciled concurrently, for this Run and later ones. Excess workers end after
// their current reconcile. SetWorkers panics if n is not positive; to stop all work, call [Controller.Pause].
func (c *Controller[K]) SetWorkers(n int) {
	if n <= 0 {
		panic(fmt.Sprintf("controller: SetWorkers called with %d, must be positive", n))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers = n
	if c.working != nil && !c.paused {
		c.working.Resize(n)
	}
}

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. A reconcile in flight continues. If key is added in the
// meantime, it is held until ResumeKey.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	c.agenda.Pause(key)
}

// ResumeKey ends [Controller.PauseKey]. If key was added in the meantime, it is reconciled.
func (c *Controller[K]) ResumeKey(key K) { c.agenda.Resume(key) }
