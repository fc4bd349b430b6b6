package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
	"github.com/setpoint-go/setpoint/leaderelect"
)

// Run connects the watches, waits until the caches have synced, and then reconciles keys until ctx ends. Then it drains, and
// returns when all its goroutines have ended.
//
// If ctx belongs to a leadership ([leaderelect.FromContext]), Run also waits until the caches have everything that was written in earlier
// terms: see [Controller.CatchUp]. The cache of a warm standby lags behind its source, so without that wait the new leader would begin with
// states from before the last writes of the former one. The wait ends with the leadership, or after another Config.SyncTimeout. While a
// source fails, its errors are logged, and Run tries again; after half of that time, [Controller.Check] returns an error.
//
// The context of a reconcile has the values of ctx but does not end with ctx, so that work in flight can finish. If ctx belongs to
// a leadership ([leaderelect.FromContext]) that is lost, the contexts of all reconciles end at once, and nothing is drained.
//
// When ctx ends, Run
//
//  1. removes its handlers from the informers,
//  2. leaves to the next Run all keys that wait for a retry or a RequeueAfter, are held, or are added from now on,
//  3. finishes the reconciles in flight, and begins no more. With Config.DrainOnStop, it also reconciles all keys that are ready, in their
//     quiet time, or were added while in flight, unless c is paused,
//  4. ends the contexts of its reconciles: after Config.DrainTimeout, with a cause that wraps [ErrDrainTimeout]; or with
//     the cause of its leadership, when that is lost or has drained for its own limit,
//  5. returns when every reconcile has returned. A reconcile that ignores its context delays Run.
//
// Run returns nil if ctx has ended and the stop is complete, or if the leadership was lost. It returns an error that
//
//   - names the keys whose reconciles were interrupted, in the order in which they have returned, and with DrainOnStop also those that
//     are still ready, and wraps [ErrDrainTimeout], or [leaderelect.ErrDrainTimeout] if the election allows less time,
//   - names the caches that did not sync, or catch up, within Config.SyncTimeout,
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
	c.working, c.interruptedKeys = nil, nil
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
	err = waitForSync(ctx, syncers, c.cfg.SyncTimeout, after(errSyncTimeout, c.cfg.SyncTimeout))
	if err == nil && ctx.Err() == nil {
		err = c.takeOver(ctx)
	}
	if err != nil || ctx.Err() != nil || leadershipErr(ctx) != nil {
		return err
	}

	defer c.pending.start()()
	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	workers := c.startWorkers(work, stopWork)
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}
	if !c.cfg.DrainOnStop {
		workers.close() // each worker ends after its current reconcile
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer stopWith(limit, stopWork)()
	stopInputs()
	c.pending.divert(c.cfg.DrainOnStop)
	if c.cfg.DrainOnStop {
		c.drain(work)
	}
	workers.wait()

	cause, left := context.Cause(work), c.pending.handOver()
	if !c.cfg.DrainOnStop {
		left = c.interrupted()
	}
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
	return c.caches.follow()
}

// startInputs starts the inputs, and returns what to wait for. stop ends them; it is nil after an error.
func (c *Controller[K]) startInputs(ctx context.Context) (syncers []informer.Syncer, stop func(), err error) {
	var beside func(context.Context, []informer.Syncer)
	if c.schedule != nil {
		beside = c.resync
	}
	return c.inputs.start(ctx, beside)
}

// interrupted returns the keys whose reconciles this Run has interrupted.
func (c *Controller[K]) interrupted() []K {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interruptedKeys
}

// stopped makes the key of a, whose reconcile was stopped, reconcile again, by the next Run if this one stops.
func (c *Controller[K]) stopped(a *attempt[K]) {
	c.pending.makeReady(a.key)
	if cause := context.Cause(a.work); cause == c.notDrained || errors.Is(cause, leaderelect.ErrDrainTimeout) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.interruptedKeys = append(c.interruptedKeys, a.key)
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

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. A reconcile in flight continues. If key is added in the
// meantime, it is held until ResumeKey.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	c.pending.pause(key)
}

// ResumeKey ends [Controller.PauseKey]. If key was added in the meantime, it is reconciled.
func (c *Controller[K]) ResumeKey(key K) { c.pending.resume(key) }
