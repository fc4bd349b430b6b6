package controller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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
	until, waiting := c.expires(key)
	if !waiting {
		if h, ok := c.holds.unwait(key); ok && !h.until.IsZero() && !time.Now().Before(h.until) {
			c.cfg.Logger.LogAttrs(t, slog.LevelWarn, "expectations expired, reconciled all the same",
				slog.String("controller", c.name), slog.Any("key", key))
		}
		return false
	}
	number := c.holds.wait(key, until)
	// It may have been told before there was something to release.
	if until, waiting = c.expires(key); !waiting {
		// If it has been released since, it is in the queue once more, and comes back.
		return !c.holds.unwaitIf(key, number)
	}
	if !until.IsZero() {
		c.schedule(key, time.Until(until), "")
	}
	return true
}

// expires asks all expectations. A key waits for the last of them.
func (c *Controller[K]) expires(key K) (until time.Time, waiting bool) {
	never := false
	until, waiting = c.mirrors.Expires(key)
	for _, e := range c.cfg.Expectations {
		at, waits := e.Expires(key)
		if !waits {
			continue
		}
		waiting = true
		never = never || at.IsZero()
		if at.After(until) {
			until = at
		}
	}
	if never {
		return time.Time{}, true
	}
	return until, waiting
}

// subscribe makes c hear of what its expectations have seen.
func (c *Controller[K]) subscribe() (stop func()) {
	var stops []func()
	for _, e := range c.cfg.Expectations {
		stops = append(stops, e.Notify(c.released))
	}
	stops = append(stops, c.mirrors.Notify(c.released))
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// released adds key to the queue if it is held.
func (c *Controller[K]) released(key K) {
	if number, ok := c.holds.isWaiting(key); ok {
		c.add(key, AddOptions{}, false)
		c.holds.unwaitIf(key, number)
	}
}

// releaseMet adds those keys that wait for nothing any more.
func (c *Controller[K]) releaseMet() {
	if c.mirrors.Active() && !c.isAttached() {
		c.mirrors.CatchUp() // nobody follows them
	}
	for _, key := range c.holds.waitingKeys() {
		if _, waiting := c.expires(key); !waiting {
			c.released(key)
		}
	}
}

// releaseAll adds all keys whose expectations are not met.
func (c *Controller[K]) releaseAll() {
	for _, key := range c.holds.waitingKeys() {
		c.released(key)
	}
}

// wait holds key, and returns the number of the hold.
func (h *holds[K]) wait(key K, until time.Time) (number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting = make(map[K]hold)
	}
	delta := +1
	if _, ok := h.waiting[key]; ok {
		delta = 0
	}
	h.countLocked(delta)
	h.waiting[key] = hold{h.changes, until}
	return h.changes
}

// unwait ends the hold of key, if there is one.
func (h *holds[K]) unwait(key K) (hold, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, ok := h.waiting[key]
	if ok {
		delete(h.waiting, key)
		h.countLocked(-1)
	}
	return old, ok
}

// unwaitIf ends the hold of key if it is the one with that number.
func (h *holds[K]) unwaitIf(key K, number uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.waiting[key]; !ok || old.number != number {
		return false
	}
	delete(h.waiting, key)
	h.countLocked(-1)
	return true
}

func (h *holds[K]) isWaiting(key K) (number uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old, ok := h.waiting[key]
	return old.number, ok
}

// waitingKeys returns the keys whose expectations are not met, in the order in which they were held.
func (h *holds[K]) waitingKeys() []K {
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := make([]K, 0, len(h.waiting))
	for key := range h.waiting {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(h.waiting[a].number, h.waiting[b].number) })
	return keys
}
