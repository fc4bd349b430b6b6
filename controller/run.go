package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/setpoint-go/setpoint/informer"
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
	c.draining = nil
}

// run is Run without its guard. While it runs nobody changes c.watches.
func (c *Controller[K]) run(ctx context.Context) error {
	handlers, err := c.connect()
	if err == nil {
		err = c.waitForSync(ctx, handlers)
	}
	if err != nil || ctx.Err() != nil {
		disconnect(handlers)
		return err
	}

	work, stopWork := workContext(ctx)
	defer stopWork(nil)
	q := c.intake.Load()
	var workers sync.WaitGroup
	for range c.cfg.Workers {
		// A worker exists to reconcile one key at a time. It ends when the queue is drained or the work is stopped,
		// and is waited for below.
		workers.Go(func() { c.work(work, q) })
	}
	select {
	case <-ctx.Done():
	case <-work.Done(): // a leadership was lost that ctx does not end with
	}

	limit, cancel := context.WithTimeoutCause(context.Background(), c.cfg.DrainTimeout, c.notDrained)
	defer cancel()
	defer stopWith(limit, stopWork)()
	disconnect(handlers)
	c.replace(q)
	q.ShutDown() // a worker that finds nothing more in it ends
	workers.Wait()

	left, cause := c.carryOver(q), context.Cause(work)
	if len(left) > 0 && (cause == c.notDrained || errors.Is(cause, leaderelect.ErrDrainTimeout)) {
		return fmt.Errorf("%w: %s", cause, describe(left))
	}
	return nil
}

// connect registers the watches with their informers. Beside an error it returns those that came before it.
func (c *Controller[K]) connect() (handlers []*informer.Registration, err error) {
	for _, w := range c.watches {
		h, err := w.connect()
		if err != nil {
			return handlers, fmt.Errorf("watch %s: %w", w.name, err)
		}
		handlers = append(handlers, h)
	}
	return handlers, nil
}

// disconnect returns when no handler runs any more.
func disconnect(handlers []*informer.Registration) {
	for _, h := range handlers {
		h.Remove()
	}
}

// waitForSync waits for the caches, and until what they hold has been added. The end of ctx is no error.
func (c *Controller[K]) waitForSync(ctx context.Context, handlers []*informer.Registration) error {
	syncers := slices.Clone(c.cfg.WaitFor)
	for _, h := range handlers { // not before its informer
		syncers = append(syncers, h)
	}
	return waitForSync(ctx, c.cfg.SyncTimeout, syncers)
}

// work reconciles the keys of q until it is shut down and empty, or ctx ends.
func (c *Controller[K]) work(ctx context.Context, q *workqueue.Queue[K]) {
	for {
		key, err := q.Next(ctx)
		if err != nil {
			return
		}
		if ctx.Err() != nil { // it ended just as the key came
			c.ledger.cut(key)
			q.Done(key)
			return
		}
		c.process(ctx, q, key)
	}
}

// replace lets what is added from now on go to a new queue. Until the end of the Run, Stats shows q.
func (c *Controller[K]) replace(q *workqueue.Queue[K]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = q
	c.intake.Store(c.newQueue())
}

// carryOver adds, for the next Run, what is owed another reconcile and what is left in q. It returns the keys that should
// have been done by this one: those whose reconcile was cut short, and those whose turn did not come.
func (c *Controller[K]) carryOver(q *workqueue.Queue[K]) (left []K) {
	cut, others := c.ledger.owed()
	left = cut
	for key, ok := q.TryGet(); ok; key, ok = q.TryGet() {
		q.Done(key)
		if !slices.Contains(cut, key) {
			left = append(left, key)
		}
	}
	for _, key := range slices.Concat(left, others) {
		c.Add(key)
	}
	return left
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
