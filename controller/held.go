package controller

import (
	"context"
	"log/slog"
	"time"
)

// Expectations knows for which keys the cache does not show yet what their last reconcile has done. Those types of package
// expectations are some. Its methods may be called by several goroutines at once.
type Expectations[K comparable] interface {
	// Expires reports whether key waits for something, and when it has waited for long enough: the zero time is never.
	Expires(key K) (at time.Time, waiting bool)

	// Notify has f called, without locks, for each key of which Expires has said that it waits, as soon as it waits no
	// more for another reason than that the time is over. When stop has returned, nothing that happens after that is told.
	Notify(f func(key K)) (stop func())
}

// awaits tells whether key waits for its expectations. Then it is held: the event that meets them adds it, or the time at
// which they expire.
func (c *Controller[K]) awaits(t context.Context, key K) bool {
	until, on, waiting := c.expected.Expires(key)
	if !waiting {
		if h, ok := c.holds.Unwait(key); ok && !h.Until.IsZero() && !time.Now().Before(h.Until) {
			c.cfg.Logger.LogAttrs(t, slog.LevelWarn, "expectations expired, reconciled all the same",
				slog.String("controller", c.name), slog.Any("key", key))
		}
		return false
	}
	number := c.holds.Wait(key, until, on)
	// It may have been told before there was something to release.
	if until, _, waiting = c.expected.Expires(key); !waiting {
		// If it has been released since, it is in the queue once more, and comes back.
		return !c.holds.UnwaitIf(key, number)
	}
	if !until.IsZero() {
		c.schedule(key, time.Until(until), "")
	}
	return true
}

// released adds key to the queue if it is held.
func (c *Controller[K]) released(key K) {
	if number, ok := c.holds.Waiting(key); ok {
		c.add(key, AddOptions{}, false)
		c.holds.UnwaitIf(key, number)
	}
}

// releaseMet adds those keys that wait for nothing any more.
func (c *Controller[K]) releaseMet() {
	if c.mirrors.Active() && !c.inputs.Started() {
		c.mirrors.CatchUp() // nobody follows them
	}
	for _, key := range c.holds.AllWaiting() {
		if _, _, waiting := c.expected.Expires(key); !waiting {
			c.released(key)
		}
	}
}

// releaseAll adds all keys whose expectations are not met.
func (c *Controller[K]) releaseAll() {
	for _, key := range c.holds.AllWaiting() {
		c.released(key)
	}
}

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. One that is in flight goes on. If the key is
// added meanwhile it is held, until then.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	c.holds.Pause(key)
}

// ResumeKey ends a [Controller.PauseKey]. The key is reconciled if it was added meanwhile.
func (c *Controller[K]) ResumeKey(key K) {
	if c.holds.Unpause(key) {
		c.add(key, AddOptions{}, false)
		c.holds.Release(1)
	}
}
