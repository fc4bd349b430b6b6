package controller

import (
	"context"
	"fmt"
	"sync"
)

// Connect attaches the watches of c to their informers, as Run does, but starts no worker. It is for tests and simulations that
// control the order of events: they reconcile the keys of [Controller.Ready] with [Controller.Step]. If [informer.Steps] drives an
// informer, Apply adds the keys of [For] and [Owns], and Deliver calls the handlers of [Watches] and [Handles].
//
//	disconnect, err := c.Connect(ctx)
//	defer disconnect()
//	for _, key := range c.Ready() {
//		report, ok := c.Step(ctx, key)
//	}
//
// While c is connected, no key is ready before its informers have synced. Goroutines retry mappings that failed, and add keys
// for Config.Resync, until ctx ends or disconnect is called.
//
// disconnect detaches the watches and waits for these goroutines. It may be called twice. Keys that were added stay in the queue.
// Do not call it from a step or from a callback of an informer. To simulate a crash, abandon c and make a new controller.
//
// Connect returns an error that wraps [ErrRunning] while c runs or is connected, or [informer.ErrEnded] if an informer has ended.
// Run returns [ErrRunning] until disconnect.
func (c *Controller[K]) Connect(ctx context.Context) (disconnect func(), err error) {
	if !c.enterConnect() {
		return nil, fmt.Errorf("controller: connect %q: %w", c.name, ErrRunning)
	}
	unfollow := c.follow()
	_, stopInputs, err := c.startInputs(ctx)
	if err != nil {
		unfollow()
		c.leaveConnect()
		return nil, fmt.Errorf("controller: connect %q: %w", c.name, err)
	}
	unsubscribe := c.pending.start()
	return sync.OnceFunc(func() {
		stopInputs()
		unfollow()
		unsubscribe()
		c.leaveConnect()
	}), nil
}

// enterConnect reports whether Connect may proceed, and marks c as connected.
func (c *Controller[K]) enterConnect() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running || c.connected {
		return false
	}
	c.connected = true
	return true
}

func (c *Controller[K]) leaveConnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected = false
}

// Ready returns the keys that may be reconciled now, in the order in which Run would reconcile them: by priority, with aging, and first
// come, first served. It returns none while c is paused, or is connected and not synced. [Controller.Step] may still find that a key must
// wait: it was paused after it was added, its expectations are not met, or Config.Queue.DispatchLimit delays it.
func (c *Controller[K]) Ready() []K {
	if !c.mayStep() {
		return nil
	}
	c.releaseMet()
	return c.queue.Ready()
}

// Step reconciles key, which [Controller.Ready] has returned, in the goroutine of the caller. It is the stepping form of Run. It
// does not wait: ok is false if key is not ready, must wait, or belongs to another replica. ok is also false if c is paused, or
// is connected and not synced, if ctx has ended, or if the leadership of ctx is over. Keys come from Add, from retries and
// RequeueAfter, and, after [Controller.Connect], from the watches. The context of the reconcile is derived from ctx. Step panics
// during a Run.
func (c *Controller[K]) Step(ctx context.Context, key K) (report Report[K], ok bool) {
	c.enterStep()
	defer c.leaveStep()
	if !c.mayStep() || ctx.Err() != nil || leadershipErr(ctx) != nil {
		return report, false
	}
	c.releaseMet()
	item, ok := c.queue.TryTakeKey(key)
	if !ok {
		return report, false
	}
	return c.process(ctx, item, nil)
}

func (c *Controller[K]) enterStep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		panic("controller: Step called during a Run")
	}
	c.steps++
}

func (c *Controller[K]) leaveStep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.steps--
}

// mayStep reports whether c is not paused, and has synced if it is connected.
func (c *Controller[K]) mayStep() bool {
	c.mu.Lock()
	paused, connected := c.paused, c.connected
	c.mu.Unlock()
	return !paused && (!connected || c.inputs.synced())
}

// releaseMet adds the held keys whose expectations are met: between steps, no goroutine does so.
func (c *Controller[K]) releaseMet() {
	if c.caches.active.Load() && !c.inputs.started() {
		c.caches.observeNow() // c does not follow them
	}
	c.pending.releaseMet(-1)
}
