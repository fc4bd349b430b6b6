package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-go/setpoint/leaderelect"
	"github.com/setpoint-go/setpoint/workqueue"
)

// Run connects the watches, waits until the caches have synced, and then reconciles what is added, until ctx ends. Then it
// drains: it disconnects the watches and reconciles what is left, for at most Config.DrainTimeout. It returns when all its
// goroutines have ended and no Reconcile runs any more.
//
// The context of a reconcile has the values of ctx, but does not end with it: it ends when the drain has taken too long.
// If ctx belongs to a leadership (see leaderelect.FromContext), it also ends, at once, when the leadership is lost, and
// then nothing is drained.
//
// Run returns nil when ctx ends and all is done, or the leadership is lost; an error that names the keys that were left,
// and wraps [ErrDrainTimeout], or that of package leaderelect if the election allows less time; an error that names the
// caches that did not sync, and wraps [ErrSyncTimeout]; or [ErrRunning]. What was not done, and what waits for another
// try, is done first thing by the next Run.
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

// enter lets one Run through at a time.
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
	c.crew = nil
}

// run is Run without its guard. While it runs nobody changes c.feeds.
func (c *Controller[K]) run(ctx context.Context) error {
	syncers, stopFeeds, err := c.startFeeds(ctx)
	if err == nil {
		err = waitForSync(ctx, c.cfg.SyncTimeout, syncers)
	}
	if err != nil || ctx.Err() != nil {
		stopFeeds()
		return err
	}

	defer c.beginWork()()
	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	crew := c.startCrew(work, stopWork)
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer stopWith(limit, stopWork)()
	stopFeeds()
	c.holds.divert()
	c.postpone()
	c.drain(work)
	crew.running.Wait()

	left, cause := c.ready(), context.Cause(work)
	c.handOver()
	if len(left) > 0 && (cause == c.notDrained || errors.Is(cause, leaderelect.ErrDrainTimeout)) {
		return fmt.Errorf("%w: %s", cause, describe(left))
	}
	return nil
}

// beginWork makes ready what steps before this have left, and has c hear of its expectations until end is called.
func (c *Controller[K]) beginWork() (end func()) {
	end = c.subscribe()
	c.releaseMet() // what was met when nobody heard of it
	c.readmit()
	return end
}

// startCrew starts the workers. They and their work end with ctx, which stop ends.
func (c *Controller[K]) startCrew(ctx context.Context, stop context.CancelCauseFunc) *crew[K] {
	leads, _ := leaderelect.FromContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew = &crew[K]{ctx: ctx, stop: stop, leads: leads, began: time.Now(), work: func(s *seat[K]) { c.work(ctx, s) }}
	if !c.paused {
		c.crew.resizeLocked(c.workers)
	}
	return c.crew
}

// drain waits until nothing is ready or in flight, ctx ends, or the controller is paused, and makes the workers end when
// they have done what they do.
func (c *Controller[K]) drain(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	if c.stopDrain = cancel; c.paused {
		cancel()
	}
	c.mu.Unlock()
	// An error says that it is of no use to wait.
	_ = c.queue.WaitIdle(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew.resizeLocked(0)
	c.crew.closed = true
	c.stopDrain = nil
}

// work is a worker: it reconciles what the queue hands out until it is not wanted any more. The context of the work is ctx.
func (c *Controller[K]) work(ctx context.Context, s *seat[K]) {
	s.goroutine.Store(goroutineID())
	returned := false
	defer func() {
		if !returned { // a Goexit: nothing can stop it, so another worker takes the seat
			c.replace(s)
		}
	}()
	for c.stay(s) {
		item, err := c.queue.Take(s.take)
		if err != nil {
			continue
		}
		if ctx.Err() != nil { // it ended just as the key came
			c.queue.Add(item.Key)
			item.Done()
			continue
		}
		c.process(ctx, item, s)
	}
	returned = true
}

func (c *Controller[K]) stay(s *seat[K]) bool {
	if s.take.Err() == nil { // in most cases, and then no lock is needed: nobody else changes take
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.crew.stayLocked(s)
}

func (c *Controller[K]) replace(s *seat[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.crew.startLocked(s)
}

// readmit makes ready what steps before this Run have left to it.
func (c *Controller[K]) readmit() {
	if !c.scheduled.Load() {
		return
	}
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Delayed && time.Until(k.Next) > never/2 {
			c.queue.Add(k.Key)
		}
	}
}

// postpone leaves what is scheduled to the next Run.
func (c *Controller[K]) postpone() {
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Delayed {
			c.holds.leave(k.Key, AddOptions{})
			c.queue.Cancel(k.Key)
		}
	}
}

// handOver makes ready, for the next Run, what is left to it. From now on keys are added to the queue again.
func (c *Controller[K]) handOver() {
	c.releaseAll()
	c.postpone()
	keys := c.holds.undivert()
	for _, k := range keys {
		c.add(k.key, k.opts, false)
	}
	c.holds.release(len(keys))
}

// ready returns the keys that are ready.
func (c *Controller[K]) ready() (keys []K) {
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Ready {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// describe names the first few of keys.
func describe[K comparable](keys []K) string {
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
