package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	if c.running || c.steps > 0 {
		return false
	}
	c.running = true
	return true
}

func (c *Controller[K]) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
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

	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	crew := c.startCrew(work)
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer stopWith(limit, stopWork)()
	stopFeeds()
	c.later.begin()
	c.postpone()
	// An error says that the work was stopped, and so were the workers.
	_ = c.queue.WaitIdle(work)
	c.stopCrew()
	crew.wait()

	left, cause := c.ready(), context.Cause(work)
	c.resume()
	if len(left) > 0 && (cause == c.notDrained || errors.Is(cause, leaderelect.ErrDrainTimeout)) {
		return fmt.Errorf("%w: %s", cause, describe(left))
	}
	return nil
}

// startCrew starts the workers. Their work, and they, end with ctx.
func (c *Controller[K]) startCrew(ctx context.Context) *crew[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew = &crew[K]{
		ctx:     ctx,
		work:    func(take context.Context, s *seat[K]) { c.work(take, ctx, s) },
		replace: c.replace,
	}
	c.crew.resizeLocked(c.cfg.Workers)
	return c.crew
}

// stopCrew makes the workers end when they have done what they do.
func (c *Controller[K]) stopCrew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.crew.resizeLocked(0)
	c.crew = nil
}

// replace starts another worker in the place of one that a Goexit has ended.
func (c *Controller[K]) replace(s *seat[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crew != nil && s.ctx.Err() == nil {
		c.crew.startLocked(s)
	}
}

// work reconciles what the queue hands out until take ends. The context of the work is ctx.
func (c *Controller[K]) work(take, ctx context.Context, s *seat[K]) {
	for {
		item, err := c.queue.Take(take)
		if err != nil {
			return
		}
		if ctx.Err() != nil { // it ended just as the key came
			c.queue.Add(item.Key)
			item.Done()
			return
		}
		c.process(ctx, item, s)
	}
}

// postpone leaves what is scheduled to the next Run.
func (c *Controller[K]) postpone() {
	for _, k := range c.queue.Snapshot() {
		if k.State == workqueue.Delayed {
			c.later.add(k.Key, AddOptions{})
			c.queue.Cancel(k.Key)
		}
	}
}

// resume makes ready, for the next Run, what was left to it. From now on keys are added to the queue again.
func (c *Controller[K]) resume() {
	c.postpone()
	for _, k := range c.later.end() {
		c.AddWith(k.key, k.opts)
	}
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
