package controller

import (
	"context"
	"log/slog"
	"time"
)

// Expectations knows the keys whose last reconcile the cache does not show yet. The types of package expectations implement it.
// Its methods must be safe for concurrent use.
type Expectations[K comparable] interface {
	// Expires reports whether key has to wait, and the time after which it does not. The zero time means never.
	Expires(key K) (at time.Time, waiting bool)

	// Notify registers f until stop is called. It calls f, without locks, for each key that Expires has reported as waiting, as
	// soon as the key need not wait any more, but not when the wait expires.
	Notify(f func(key K)) (stop func())
}

// awaits reports whether key waits for its expectations. If so, it holds key until an event meets them, or until they expire.
func (c *Controller[K]) awaits(t context.Context, key K) bool {
	until, on, waiting := c.expected.Expires(key)
	if !waiting {
		if h, ok := c.holds.Unwait(key); ok && !h.Until.IsZero() && !time.Now().Before(h.Until) {
			c.cfg.Logger.LogAttrs(t, slog.LevelWarn, "expectations expired, reconciled nevertheless",
				slog.String("controller", c.name), slog.Any("key", key))
		}
		return false
	}
	number := c.holds.Wait(key, until, on)
	// The notification may have come before key was held.
	if until, _, waiting = c.expected.Expires(key); !waiting {
		// If key has been released since, it is in the queue again, and comes back.
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

// releaseMet adds the held keys whose expectations are met.
func (c *Controller[K]) releaseMet() {
	if c.mirrors.Active() && !c.inputs.Started() {
		c.mirrors.CatchUp() // c does not follow them
	}
	for _, key := range c.holds.AllWaiting() {
		if _, _, waiting := c.expected.Expires(key); !waiting {
			c.released(key)
		}
	}
}

// releaseAll adds all keys that are held for expectations.
func (c *Controller[K]) releaseAll() {
	for _, key := range c.holds.AllWaiting() {
		c.released(key)
	}
}

// PauseKey makes c begin no reconcile of key until [Controller.ResumeKey]. A reconcile in flight continues. If key is added
// meanwhile, it is held until ResumeKey.
//
// PauseKey panics if key is not equal to itself, such as a NaN.
func (c *Controller[K]) PauseKey(key K) {
	checkKey(key)
	c.holds.Pause(key)
}

// ResumeKey ends [Controller.PauseKey]. If key was added meanwhile, it is reconciled.
func (c *Controller[K]) ResumeKey(key K) {
	if c.holds.Unpause(key) {
		c.add(key, AddOptions{}, false)
		c.holds.Release(1)
	}
}
