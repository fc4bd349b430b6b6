package controller

import (
	"context"
	"fmt"
)

// WaitIdle waits until there is a moment at which no key is ready, in flight or held: all that was added is done. It returns
// an error that wraps the cause of ctx if that ends before.
//
// Keys that wait for another try, for a RequeueAfter, for a Gate, or to be mapped again do not count: [Controller.Stats]
// tells how many there are. Nor does what an informer has not told yet: use [Controller.WaitReconciled] after a write. While
// no Run is under way, or c is paused, what is ready stays so.
func (c *Controller[K]) WaitIdle(ctx context.Context) error {
	for {
		changes, err := c.holds.waitEmpty(ctx)
		if err == nil {
			err = c.queue.WaitIdle(ctx)
		}
		if err != nil {
			return fmt.Errorf("controller: wait for %q to be idle: %w", c.name, err)
		}
		// Nothing was held in all the time in which the queue came to be idle. Otherwise a key may have gone from the one
		// to the other, and was seen in neither.
		if c.holds.unchanged(changes) {
			return nil
		}
	}
}
