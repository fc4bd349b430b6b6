package controller

import (
	"context"
	"fmt"
	"sync"

	"github.com/setpoint-go/setpoint/controller/internal/term"
)

// Connect attaches the watches of c to their informers, as Run does when it begins, and starts no worker. It is for tests and
// simulations that decide what happens when: they reconcile the keys of [Controller.Ready] by [Controller.Step]. An informer
// that is driven by [informer.Steps] adds its keys when its handlers are called.
//
//	disconnect, err := c.Connect(ctx)
//	defer disconnect()
//	for _, key := range c.Ready() {
//		report, ok := c.Step(ctx, key)
//	}
//
// Until disconnect is called, no key is ready before the sources of c have
// synced. Mappers that are called again after they failed work in goroutines, which ctx or disconnect ends.
//
// disconnect detaches the watches, waits for these goroutines, and may be called twice. Keys that were added stay. A step, or a
// callback of an informer, must not call it. A simulation of a crash leaves c behind, and makes a new controller.
//
// Connect returns an error that wraps [ErrRunning] while c runs or is connected, and Run does so until disconnect. It returns an
// error that wraps [informer.ErrEnded] if an informer has ended.
func (c *Controller[K]) Connect(ctx context.Context) (disconnect func(), err error) {
	if !c.enterConnect() {
		return nil, fmt.Errorf("controller: connect %q: %w", c.name, ErrRunning)
	}
	_, stopInputs, err := c.startInputs(ctx)
	if err != nil {
		stopInputs()
		c.leaveConnect()
		return nil, fmt.Errorf("controller: connect %q: %w", c.name, err)
	}
	unsubscribe := c.beginWork()
	return sync.OnceFunc(func() {
		stopInputs()
		unsubscribe()
		c.leaveConnect()
	}), nil
}

// enterConnect lets one Connect through at a time.
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

// Ready returns the keys that may be reconciled now, in the order in which Run would begin them: by priority, with aging, and
// first come, first served. There are none while c is paused, or is connected and not synced. [Controller.Step] may find that
// a key has to wait: it is paused, its expectations are not met, or Config.Queue.DispatchLimit does not let it through.
func (c *Controller[K]) Ready() []K {
	if !c.mayStep() {
		return nil
	}
	c.releaseMet()
	return c.queue.Ready()
}

// Step reconciles key, one of those of [Controller.Ready], in the goroutine of the caller, and reports how it went. It is the
// stepping form of Run, for tests that decide what happens when. It does not wait: ok is false if key is not ready or has to
// wait, if c is paused, if ctx has ended, or if ctx belongs to a leadership that is over. Keys come from Add, from reconciles
// before that asked to be called again, and from the watches after [Controller.Connect]. ctx becomes the context of the
// reconcile, and ends it. Step panics while Run is under way.
func (c *Controller[K]) Step(ctx context.Context, key K) (report Report[K], ok bool) {
	c.enterStep()
	defer c.leaveStep()
	if !c.mayStep() || ctx.Err() != nil || term.Err(ctx) != nil {
		return report, false
	}
	c.releaseMet() // what a Run hears, a step has to ask for
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
		panic("controller: Step called while Run is under way")
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
	return !paused && (!connected || c.inputs.Synced())
}
