package controller

import (
	"context"
	"fmt"
	"slices"
)

// WaitIdle waits until everything that the caches of the watched informers hold when it is called has been mapped, and its
// keys and all others that were added have been reconciled: there is a moment at which no key is ready, in flight or held.
//
// The watches belong to Run or to [Controller.Connect]. So if c watches informers, WaitIdle waits until one of these has
// connected the watches and the informers have synced. If it ends before the mappers are done, WaitIdle waits for the next
// one. No Run hears of an object that was deleted before it began.
//
// If c watches no informer, WaitIdle only waits for keys that were added. While no Run is under way, or c is paused, keys
// that are ready stay ready.
//
// Keys that wait for another try, for a RequeueAfter or for a Gate do not count, nor do objects that wait to be mapped
// again: [Controller.Stats] tells how many there are. Nor do changes that the caches do not show yet: use
// [Controller.WaitReconciled] after a write.
//
// WaitIdle returns an error that wraps the cause of ctx when ctx ends first, and one that wraps [informer.ErrEnded] when an
// informer ends while c watches it. A mapper must not call WaitIdle, nor must a Reconcile: each would wait for itself.
func (c *Controller[K]) WaitIdle(ctx context.Context) error {
	err := c.waitMapped(ctx)
	if err == nil {
		err = c.waitIdle(ctx)
	}
	if err != nil {
		return fmt.Errorf("controller: wait for %q to be idle: %w", c.name, err)
	}
	return nil
}

// waitMapped waits until what the caches hold has been mapped.
func (c *Controller[K]) waitMapped(ctx context.Context) error {
	for c.watches() {
		made, attaching := c.attachment()
		if made == nil {
			select {
			case <-attaching:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		err := made.wait(ctx)
		if err == nil {
			return nil
		}
		if now, _ := c.attachment(); now == made || ctx.Err() != nil {
			return err
		}
		// The handler was removed because the Run ended.
	}
	return nil
}

// wait waits until the handlers are done with what the caches hold.
func (made *attachment) wait(ctx context.Context) error {
	for _, handler := range made.handlers {
		if err := handler.WaitIdle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watches reports whether c watches an informer.
func (c *Controller[K]) watches() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.feeds, func(f feed) bool {
		_, ok := f.(*handlerFeed)
		return ok
	})
}

// waitIdle waits until there is a moment at which no key is ready, in flight or held.
func (c *Controller[K]) waitIdle(ctx context.Context) error {
	for {
		changes, err := c.holds.waitEmpty(ctx)
		if err != nil {
			return err
		}
		if err = c.queue.WaitIdle(ctx); err != nil {
			return err
		}
		// Nothing was held in all the time in which the queue came to be idle. Otherwise a key may have gone from the one
		// to the other, and was seen in neither.
		if c.holds.unchanged(changes) {
			return nil
		}
	}
}
