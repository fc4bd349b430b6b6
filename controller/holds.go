package controller

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// hold is what pending records about a key: why it must not be reconciled now, and what its reconcile needs when it may be. After a wait has
// expired, the hold stays until a worker has reported that. A time is zero if it does not apply.
//
//	holdLocked, pause, waitFor   begin a hold, or add a reason to it
//	keep, leave                  make its key due: it is to be reconciled when nothing holds it. While a Run drains, the key is left to the next
//	settle, postpone, divert     do so for the key whose reconcile ends, and for all that are scheduled when a drain begins and ends
//	met, resume, end             end a part of a hold
//	releaseLocked, putBack       end the hold of which no part is left, and put a key that was due into the queue
//	takeHold                     ends the hold of a key that a worker has taken
//	handOver                     releases all keys that were left to the next Run
type hold struct {
	paused     time.Time // since PauseKey
	left       time.Time // since the key was left to the next Run
	waitsSince time.Time // since it waits for expectations
	on         int       // the number of these expectations
	until      time.Time // when they expire; zero for never
	due        time.Time // since the key is to be reconciled
	rank       uint64    // of due: in which order the keys became so
	lane       Lane      // of the key, while it is due

	reasons []workqueue.Reason // why it is due, the oldest first

	expiry *time.Timer // fires at until, while nothing but time may release the key; it may have fired
	back   bool        // the wait has expired, and the key is in the queue, or about to be: the worker takes the hold, and reports it
}

// holds reports whether the key must not be reconciled now. A wait that has expired holds no key; admits reports it.
func (h *hold) holds() bool { return !h.paused.IsZero() || !h.left.IsZero() || h.isWaiting() }

func (h *hold) isWaiting() bool {
	return !h.waitsSince.IsZero() && (h.until.IsZero() || time.Now().Before(h.until))
}

// waitFor begins a wait for expectations, unless it has begun.
func (h *hold) waitFor(on int, until time.Time) {
	if h.waitsSince.IsZero() || h.on != on {
		h.waitsSince = time.Now()
	}
	h.on, h.until = on, until
}

// endWait ends the wait for expectations.
func (h *hold) endWait() { h.waitsSince, h.until, h.on = time.Time{}, time.Time{}, 0 }

// since returns when something that has begun at a time began to hold the key, which must be due.
func (h *hold) since(began time.Time) time.Time {
	if h.due.After(began) {
		return h.due
	}
	return began
}

// holdLocked returns the hold of key, which it makes if there is none.
func (p *pending[K]) holdLocked(key K) *hold {
	h := p.holds[key]
	if h == nil {
		if len(p.holds) >= p.sweepAt {
			p.sweepLocked()
		}
		h = &hold{}
		p.holds[key] = h
		p.holding.Add(1)
	}
	return h
}

// firstSweep is the number of holds at which expired waits are looked for. keepHolds is the number for which the map is kept.
const (
	firstSweep = 64
	keepHolds  = 4096
)

// sweepLocked removes the waits of keys that are not due, once they have expired.
func (p *pending[K]) sweepLocked() {
	for key, h := range p.holds {
		if h.due.IsZero() && !h.holds() {
			p.removeLocked(key)
		}
	}
	p.sweepAt = max(firstSweep, 2*len(p.holds))
}

func (p *pending[K]) removeLocked(key K) {
	p.holds[key].stopExpiry()
	delete(p.holds, key)
	p.holding.Add(-1)
	if len(p.holds) == 0 && p.sweepAt > keepHolds { // free the memory of a burst
		p.holds, p.sweepAt = make(map[K]*hold), firstSweep
	}
}

// makeDueLocked records that a key that is held is to be reconciled. Of several priorities, the highest counts.
func (p *pending[K]) makeDueLocked(h *hold, lane Lane, reasons ...workqueue.Reason) {
	h.back = false
	if h.due.IsZero() {
		p.due++
		p.changes++
		h.due, h.rank, h.lane = time.Now(), p.changes, lane
	}
	h.lane = h.lane.merge(lane)
	h.reasons = mergeReasons(h.reasons, reasons)
	const most = 8 // as in the queue
	h.reasons = h.reasons[max(0, len(h.reasons)-most):]
}

// notDueLocked ends what makeDueLocked has recorded.
func (p *pending[K]) notDueLocked(h *hold) {
	if h.due.IsZero() {
		return
	}
	p.due--
	h.due, h.reasons = time.Time{}, nil
	p.changedLocked()
}

// changedLocked wakes the callers that wait until nothing is held.
func (p *pending[K]) changedLocked() {
	p.changes++
	p.changed.Wake()
}

// keep makes key due in its hold. It returns false if nothing holds key. While a Run drains, everything does; then left is true.
func (p *pending[K]) keep(key K, lane Lane, reasons ...workqueue.Reason) (held, left bool) {
	if p.holding.Load() == 0 { // nearly always
		return false, false
	}
	p.mu.Lock()
	h := p.holds[key]
	switch {
	case p.draining.Load():
		h = p.holdLocked(key)
		if h.left.IsZero() {
			h.left = time.Now()
		}
	case h == nil || !h.holds():
		p.mu.Unlock()
		return false, false
	}
	p.makeDueLocked(h, lane, reasons...)
	left = p.draining.Load()
	p.awaitExpiryLocked(key, h)
	p.mu.Unlock()
	return true, left
}

// awaitExpiryLocked sees that key is released when the expectations that hold it expire, if it is due, and nothing else holds it.
func (p *pending[K]) awaitExpiryLocked(key K, h *hold) {
	h.stopExpiry()
	if h.due.IsZero() || !h.paused.IsZero() || !h.left.IsZero() || h.until.IsZero() || !h.isWaiting() {
		return
	}
	h.expiry = time.AfterFunc(time.Until(h.until), func() { p.end(key, func(*hold) {}) })
}

// stopExpiry undoes awaitExpiryLocked. A timer that has just fired does no harm: end releases only what nothing holds.
func (h *hold) stopExpiry() {
	if h.expiry != nil {
		h.expiry.Stop()
		h.expiry = nil
	}
}

// end ends a part of the hold of key, as part does. If key is due and nothing else holds it, end adds it to the queue.
func (p *pending[K]) end(key K, part func(h *hold)) {
	if p.holding.Load() == 0 {
		return
	}
	p.mu.Lock()
	h := p.holds[key]
	if h == nil {
		p.mu.Unlock()
		return
	}
	part(h)
	if p.draining.Load() && !h.due.IsZero() && !h.back && h.left.IsZero() {
		h.left = time.Now()
	}
	back, ok := p.releaseLocked(key, h)
	if !ok {
		p.awaitExpiryLocked(key, h)
	}
	p.mu.Unlock()
	if ok {
		p.putBack(back)
	}
}

// released is a key that was due, and that nothing holds anymore.
type released[K comparable] struct {
	key     K
	options workqueue.AddOptions
}

// releaseLocked ends the hold of key if nothing holds it. If it returns true, the caller calls putBack.
func (p *pending[K]) releaseLocked(key K, h *hold) (back released[K], ok bool) {
	if h.back || h.holds() {
		return back, false
	}
	if h.due.IsZero() {
		p.removeLocked(key)
		return back, false
	}
	p.moving++
	// A negative delay is none, and Debounce does not apply.
	back = released[K]{key: key, options: workqueue.AddOptions{After: -1, Priority: h.lane.Priority, Group: h.lane.Group}}
	if h.back = !h.waitsSince.IsZero(); !h.back {
		back.options.Reasons = h.reasons
		p.notDueLocked(h)
		p.removeLocked(key)
	}
	return back, true
}

// putBack adds keys to the queue, each with its own priority and reasons.
func (p *pending[K]) putBack(keys ...released[K]) {
	for _, k := range keys {
		p.queue.AddWith(k.key, k.options)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moving -= len(keys)
	p.changedLocked()
}

// waitFor makes key wait for expectations, which expire at a time.
func (p *pending[K]) waitFor(key K, on int, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdLocked(key).waitFor(on, until)
}

// heldSortedLocked returns the keys whose holds pass, in the order in which they became due.
func (p *pending[K]) heldSortedLocked(pass func(h *hold) bool) (keys []K) {
	for key, h := range p.holds {
		if pass(h) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(p.holds[a].rank, p.holds[b].rank) })
	return keys
}

// waitNoneHeld waits until nothing is held, and returns the number of changes until then.
func (p *pending[K]) waitNoneHeld(ctx context.Context) (changes uint64, err error) {
	for {
		changed := p.changed.Next()
		p.mu.Lock()
		none, changes := p.due == 0 && p.moving == 0, p.changes
		p.mu.Unlock()
		if none {
			return changes, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// unchanged reports whether nothing was held since waitNoneHeld returned changes.
func (p *pending[K]) unchanged(changes uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes == changes
}

// The reasons of Stats.HeldBy, besides expectations.
const (
	byPause = "pause"
	byDrain = "drain"
)

// by returns what holds a key that is due, and since when. It returns an empty text if nothing does.
func (p *pending[K]) by(h *hold) (reason string, since time.Time) {
	switch {
	case h.due.IsZero():
		return "", since
	case !h.paused.IsZero():
		return byPause, h.since(h.paused)
	case !h.left.IsZero():
		return byDrain, h.left
	case !h.waitsSince.IsZero():
		return p.expected[h.on].name, h.since(h.waitsSince)
	}
	return "", since
}

// held returns how many keys are held, by what, and how long the first of those has been held: see Stats.
func (p *pending[K]) held() (all int, by map[string]int, oldest map[string]time.Duration) {
	by, oldest = map[string]int{byPause: 0, byDrain: 0}, map[string]time.Duration{byPause: 0, byDrain: 0}
	for _, e := range p.expected {
		by[e.name], oldest[e.name] = 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.due > 0 {
		for _, h := range p.holds {
			if reason, since := p.by(h); reason != "" {
				by[reason]++
				oldest[reason] = max(oldest[reason], time.Since(since))
			}
		}
	}
	return p.due + p.moving, by, oldest
}
