package controller

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/internal/broadcast"
	"github.com/setpoint-go/setpoint/workqueue"
)

// pending has the keys that a controller must reconcile: those in its queue, and those that are held outside it, because they are paused,
// wait for expectations, or are left to the next Run. Every addition and every hold of a key goes through it. Only Forget and DropParked do
// not.
//
// A held key is not in the queue. A timer of its hold fires when its expectations expire. Holds are asked when a key
// is added, and when its reconcile ends (settle). A worker asks again (admits), since two kinds of holds are found nowhere else: the key was
// ready or scheduled before it was paused, or expectations of the caller have changed since. Such a key costs one dispatch.
//
//  1. Nothing is lost: a key is held before a worker gives it back to the queue, and it counts as held until it is in the queue. So at each
//     moment it is in one of the two, or in both.
//  2. A key comes back with the highest priority, the group, and the reasons with which it was added.
//  3. From divert to handOver no other key becomes ready: a key that is added, or comes back later, is left to the next Run. The stop ends
//     quiet times.
//  4. While nothing is held, and without expectations, add and admits cost a few atomic reads.
type pending[K comparable] struct {
	causes causes[K]

	queue     *workqueue.Queue[K]
	expected  expectationSet[K]
	callers   bool // some of them are Config.Expectations
	limited   bool // the queue has a limit for groups
	unread    []*unreadKeys[K]
	caches    *storeCaches[K]
	scheduled atomic.Bool      // something was scheduled at least once, other than a retry
	holding   atomic.Int64     // the number of holds, and one more while draining; written with mu held
	draining  atomic.Bool      // a Run drains; written with mu held
	changed   broadcast.Signal // a key is not held anymore

	mu sync.Mutex
	// mu guards the following. Invariants:
	//
	//  1. A hold is paused, waits, or is left to the next Run. Only a Run that drains leaves keys.
	//  2. due counts the holds that are due. They alone have reasons.
	//  3. A hold has a timer only if it is due, and neither paused nor left to the next Run.
	holds   map[K]*hold
	sweepAt int // when there are so many holds, expired waits are looked for
	due     int
	moving  int    // keys that are just being added to the queue; they count as held
	changes uint64 // of due and moving
}

// newPending returns the pending keys of a queue. A key waits for the expectations of the caller, until it is not unread, and for the caches.
func newPending[K comparable](
	queue *workqueue.Queue[K], callers []Expectations[K], unread []*unreadKeys[K], caches *storeCaches[K],
) *pending[K] {
	p := &pending[K]{queue: queue, callers: len(callers) > 0, unread: unread, caches: caches, holds: make(map[K]*hold), sweepAt: firstSweep}
	for i, e := range callers {
		name := fmt.Sprint(i + 1)
		if named, ok := e.(interface{ Name() string }); ok {
			name = cmp.Or(named.Name(), name)
		}
		p.expected = append(p.expected, expectation[K]{e, ofCaller, "expectations " + name})
	}
	for _, u := range unread {
		p.expected = append(p.expected, expectation[K]{u, ofUnread, "unread " + u.name})
	}
	for _, c := range caches.all {
		p.expected = append(p.expected, expectation[K]{c, ofCache, "cache " + c.name})
	}
	return p
}

// add adds key. It returns true if a Run drains: then key is left to the next Run. A key that the queue has keeps its priority if that is
// higher.
func (p *pending[K]) add(key K, lane Lane, reason string) (left bool) {
	if p.holding.Load() > 0 {
		if p.draining.Load() {
			if info, ok := p.queue.Info(key); ok && info.State != workqueue.Remembered {
				lane = p.laneIn(info).merge(lane)
			}
		}
		if p.holdsAdds(key) {
			if held, left := p.keep(key, lane, newReasons(reason)...); held {
				return left
			}
		}
	}
	if lane == (Lane{}) && reason == "" {
		p.queue.Add(key)
	} else {
		p.queue.AddWith(key, workqueue.AddOptions{Priority: lane.Priority, Group: lane.Group, Reason: reason})
	}
	// A stop may have begun since, and may not have seen key. A hold may have begun too. That is harmless: a worker looks for holds before it
	// reconciles key, and if one has already taken key, the hold is that of the reconcile for this add.
	if p.holding.Load() > 0 && p.draining.Load() {
		p.endQuiet(key)
	}
	return false
}

// holdsAdds reports whether key is held by a drain, a pause, or expectations that are not the caller's. Those of the caller may be met
// without a notification, and may take their time to say so, so the worker that takes key asks them.
func (p *pending[K]) holdsAdds(key K) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[key]
	return p.draining.Load() || h != nil && (!h.paused.IsZero() || p.expected[h.on].kind != ofCaller && h.isWaiting())
}

// newReasons returns the reason with this text, unless that is empty.
func newReasons(text string) []workqueue.Reason {
	if text == "" {
		return nil
	}
	return []workqueue.Reason{{Text: text, At: time.Now()}}
}

// endQuiet ends the quiet time of key, if it has one: key is ready now, or after its reconcile.
func (p *pending[K]) endQuiet(key K) {
	if info, _ := p.queue.Info(key); !info.QuietUntil.IsZero() {
		p.makeReady(key)
	}
}

// expiredHold describes an expectation of a key that has expired and is not met.
type expiredHold struct {
	reason  string        // as in KeyInfo.HeldBy
	version uint64        // that the cache does not show; 0 if the expectation is the caller's
	waited  time.Duration // since the reconcile that wrote version has ended, or, of one of the caller's, since the key was held
}

// admits reports whether the key of item, which was taken from the queue, may be reconciled now. Otherwise it is held. expired has the
// expectations that have expired and are not met: those of caches, even if the key was never held, and the caller's that held the key.
// reasons are those of item, and those with which the key was added while it was held.
func (p *pending[K]) admits(item workqueue.Item[K]) (admitted bool, reasons []workqueue.Reason, expired []expiredHold) {
	key := item.Key
	if p.scheduled.Load() {
		// This reconcile replaces everything that is scheduled for the key or was added so far.
		p.queue.Cancel(key)
	}
	if p.holding.Load() > 0 && p.keepPaused(item) {
		return false, nil, nil
	}
	held, asked := false, p.mayWait(key)
	if asked {
		if until, on, waiting := p.expected.Expires(key); waiting {
			p.waitFor(key, on, until)
			held, _ = p.keep(key, p.lane(key), item.Reasons...)
		}
		if held {
			if _, _, waiting := p.expected.Expires(key); waiting {
				return false, nil, nil
			}
			// The notification may have come before key was held.
		}
	}
	h, paused := p.takeHold(item)
	if paused || held && h.due.IsZero() { // the notification has come meanwhile, and end has put key into the queue again
		return false, nil, nil
	}
	if asked {
		expired = p.expired(key, &h)
	}
	return true, mergeReasons(h.reasons, item.Reasons), expired
}

// mayWait reports whether key may wait for expectations. Without any, it costs a few atomic reads.
func (p *pending[K]) mayWait(key K) bool {
	return p.callers || p.caches.active.Load() || p.isUnread(key)
}

// keepPaused holds the key of item if it is paused.
func (p *pending[K]) keepPaused(item workqueue.Item[K]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holds[item.Key]
	if h == nil || h.paused.IsZero() {
		return false
	}
	p.makeDueLocked(h, p.lane(item.Key), item.Reasons...)
	return true
}

// takeHold ends the hold of the key of item, and returns it, unless the key is paused, or left to the next Run.
func (p *pending[K]) takeHold(item workqueue.Item[K]) (h hold, paused bool) {
	if p.holding.Load() == 0 {
		return h, false
	}
	if p.keepPaused(item) {
		return h, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if held := p.holds[item.Key]; held != nil && held.left.IsZero() && held.paused.IsZero() {
		h = *held
		p.notDueLocked(held)
		p.removeLocked(item.Key)
	}
	return h, false
}

// expired returns what key no longer waits for although it is not met. h is its last hold.
func (p *pending[K]) expired(key K, h *hold) (expired []expiredHold) {
	if !h.due.IsZero() && !h.waitsSince.IsZero() && p.expected[h.on].kind == ofCaller && !h.isWaiting() {
		expired = append(expired, expiredHold{reason: p.expected[h.on].name, waited: time.Since(h.since(h.waitsSince))})
	}
	for _, c := range p.caches.all {
		if version, waited, ok := c.expired(key); ok {
			expired = append(expired, expiredHold{"cache " + c.name, version, waited})
		}
	}
	return expired
}

// settle holds key, whose reconcile ends, if it waits for expectations. Call it before the key is given back to the queue.
func (p *pending[K]) settle(key K) {
	if !p.mayWait(key) {
		return
	}
	until, on, waiting := p.expires(key)
	if !waiting {
		return
	}
	info, _ := p.queue.Info(key)
	if !info.Dirty && p.expected[on].kind != ofCache {
		return // the worker that takes key asks again
	}
	p.waitFor(key, on, until)
	if info, _ = p.queue.Info(key); info.Dirty {
		p.queue.Cancel(key)
		if held, _ := p.keep(key, p.laneIn(info), info.Reasons...); !held { // the wait has just expired
			p.makeReady(key)
		}
	}
	p.met(key) // the notification may have come before key was held
}

// expires is Expires of the expectations. If that panics, it returns false: the worker that takes key finds out.
func (p *pending[K]) expires(key K) (until time.Time, on int, waiting bool) {
	defer func() {
		if recover() != nil {
			waiting = false
		}
	}()
	return p.expected.Expires(key)
}

// never is a delay that does not end in this Run.
const never = time.Duration(1 << 62)

// makeReady makes key, which is in the queue, reconcile again at once, in its own lane.
func (p *pending[K]) makeReady(key K) {
	p.queue.AddWith(key, workqueue.AddOptions{After: -1, Priority: p.lane(key).Priority}) // not delayed by Debounce
}

// lane returns the lane of key in the queue.
func (p *pending[K]) lane(key K) Lane {
	info, _ := p.queue.Info(key)
	return p.laneIn(info)
}

// laneIn returns the lane of a key in the queue. If there is a limit for groups, no addition names a group, and the queue knows that of the key.
func (p *pending[K]) laneIn(info workqueue.KeyInfo[K]) Lane {
	if p.limited {
		return Lane{Priority: info.Priority}
	}
	return Lane{info.Priority, info.Group}
}

// after schedules key, which is in flight, to be reconciled after d, or by the next Run if this one drains.
func (p *pending[K]) after(key K, d time.Duration, reason string) {
	p.schedule()
	if !p.leave(key, reason) {
		p.queue.AddWith(key, workqueue.AddOptions{After: d, Replace: true, Reason: reason})
	}
}

// schedule records that something is scheduled.
func (p *pending[K]) schedule() {
	if !p.scheduled.Load() {
		p.scheduled.Store(true)
	}
}

// nextRun leaves key, which is in flight, to the next Run, even if this one continues.
func (p *pending[K]) nextRun(key K) { p.after(key, never, "") }

// retry schedules the next attempt of key, which is in flight and has failed, after d, or by the next Run if this one drains.
func (p *pending[K]) retry(key K, d time.Duration, reason string) {
	// A negative delay means none; with zero, the queue would choose one.
	opts := workqueue.AddOptions{RateLimited: true, After: cmp.Or(d, -1), Replace: true, Reason: reason}
	p.queue.AddWith(key, opts)
	if p.leave(key, "") { // even if d is 0, or a key that always fails would keep Run from ending
		p.queue.Cancel(key)
	}
}

// untilRetry returns how much of the latest backoff of key is left. It is not positive if that has ended, or if there was none.
func (p *pending[K]) untilRetry(key K) time.Duration {
	info, _ := p.queue.Info(key)
	return time.Until(info.BackoffUntil)
}

// park parks key, which is in flight.
func (p *pending[K]) park(key K, reason string) {
	p.queue.Park(key, reason)
}

// leave leaves key, which is in flight, to the next Run, with its priority. It returns false if this Run does not drain.
func (p *pending[K]) leave(key K, reason string) (left bool) {
	if p.draining.Load() {
		_, left = p.keep(key, p.lane(key), newReasons(reason)...)
	}
	return left
}

// pause holds key until resume.
func (p *pending[K]) pause(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.holdLocked(key)
	if h.paused.IsZero() {
		h.paused = time.Now()
	}
	h.stopExpiry()
}

// resume ends the pause of key.
func (p *pending[K]) resume(key K) { p.end(key, func(h *hold) { h.paused = time.Time{} }) }

// start makes the keys ready that the last Run or steps left, and then each key whose expectations are met, until stop is called.
func (p *pending[K]) start() (stop func()) {
	stopNotify, stopUnread := p.expected.Notify(p.met), p.watchUnread()
	stop = func() {
		stopUnread()
		stopNotify()
	}
	p.releaseMet(-1) // expectations that have already been met
	if p.scheduled.Load() {
		for _, k := range p.queue.Snapshot() {
			if k.State == workqueue.Delayed && time.Until(k.Next) > never/2 {
				p.makeReady(k.Key)
			}
		}
	}
	return stop
}

// met ends the wait of key, some of whose expectations are met, unless it still waits, or again.
func (p *pending[K]) met(key K) {
	if p.holding.Load() == 0 {
		return
	}
	// A wait that begins after this is ended too. Then the worker that takes key begins it again.
	until, on, waiting := p.expires(key)
	p.end(key, func(h *hold) {
		if !waiting {
			h.endWait()
		} else if !h.waitsSince.IsZero() {
			h.waitFor(on, until)
		}
	})
}

// releaseMet ends the waits of keys whose expectations are met: those with the given number, or, if it is negative, all.
func (p *pending[K]) releaseMet(on int) {
	if p.holding.Load() == 0 {
		return
	}
	p.mu.Lock()
	waiting := p.heldSortedLocked(func(h *hold) bool { return h.isWaiting() && (on < 0 || h.on == on) })
	p.mu.Unlock()
	for _, key := range waiting {
		p.met(key)
	}
}

// divert leaves to the next Run all keys that are scheduled, and those that are added from now on. If quietToo is true, the keys in their
// quiet time are due now; otherwise they are left to the next Run too.
func (p *pending[K]) divert(quietToo bool) {
	p.mu.Lock()
	p.draining.Store(true)
	p.holding.Add(1)
	p.mu.Unlock()
	if quietToo {
		for _, k := range p.queue.Snapshot() {
			if !k.QuietUntil.IsZero() {
				p.makeReady(k.Key)
			}
		}
	}
	p.postpone()
}

// postpone leaves all scheduled keys to the next Run, and all parked keys that their quiet time would revive.
func (p *pending[K]) postpone() {
	for _, k := range p.queue.Snapshot() {
		if k.State == workqueue.Delayed || k.State == workqueue.Parked && !k.QuietUntil.IsZero() {
			p.keep(k.Key, p.laneIn(k), k.Reasons...)
			p.queue.Cancel(k.Key)
		}
	}
}

// handOver makes ready all keys that are left to the next Run, and returns those that were ready before. From now on, add adds to the queue
// again.
func (p *pending[K]) handOver() (ready []K) {
	for _, k := range p.queue.Snapshot() {
		if k.State == workqueue.Ready {
			ready = append(ready, k.Key)
		}
	}
	p.postpone()
	var back []released[K]
	p.mu.Lock()
	p.draining.Store(false)
	p.holding.Add(-1)
	for _, key := range p.heldSortedLocked(func(h *hold) bool { return !h.left.IsZero() }) { // under the lock, so that no keep comes in between
		h := p.holds[key]
		h.left = time.Time{}
		if b, ok := p.releaseLocked(key, h); ok {
			back = append(back, b)
		} else {
			p.awaitExpiryLocked(key, h)
		}
	}
	p.mu.Unlock()
	p.putBack(back...)
	return ready
}

// waitIdle waits for a moment with no key ready, in flight, or held.
func (p *pending[K]) waitIdle(ctx context.Context) error {
	for {
		changes, err := p.waitNoneHeld(ctx)
		if err != nil {
			return err
		}
		if err = p.queue.WaitIdle(ctx); err != nil {
			return err
		}
		// Nothing was held while the queue became idle. Otherwise a key may have moved from one to the other unseen.
		if p.unchanged(changes) {
			return nil
		}
	}
}

// pendingKey is what the queue and the holds say about a key. Its State is zero if the key is not in the queue. For the other fields see KeyInfo.
type pendingKey[K comparable] struct {
	workqueue.KeyInfo[K]

	pausedSince time.Time // zero if it is not paused
	heldBy      string
	heldUntil   time.Time
}

// of returns what the queue and the holds say about key.
func (p *pending[K]) of(key K) pendingKey[K] {
	info, _ := p.queue.Info(key)
	info.Key = key
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.describe(info, p.holds[key])
}

// all iterates over the keys in the queue or in a hold, each as of a different moment. A key that changes during the iteration may be
// yielded twice, or not at all.
func (p *pending[K]) all() iter.Seq[pendingKey[K]] {
	return func(yield func(pendingKey[K]) bool) {
		var held map[K]hold // none, usually
		p.mu.Lock()
		for key, h := range p.holds {
			if h.holds() || !h.due.IsZero() {
				if held == nil {
					held = make(map[K]hold)
				}
				held[key] = *h
			}
		}
		p.mu.Unlock()
		for info := range p.queue.All() {
			var h *hold
			if copied, ok := held[info.Key]; ok {
				h = &copied
				delete(held, info.Key)
			}
			if !yield(p.describe(info, h)) {
				return
			}
		}
		for key, h := range held {
			if h.due.IsZero() && h.paused.IsZero() {
				continue // it would be held, and is not due
			}
			if !yield(p.describe(workqueue.KeyInfo[K]{Key: key}, &h)) {
				return
			}
		}
	}
}

// describe collects what the queue and the hold of a key say. h may be nil.
func (p *pending[K]) describe(info workqueue.KeyInfo[K], h *hold) pendingKey[K] {
	k := pendingKey[K]{KeyInfo: info}
	var since time.Time
	if h != nil {
		k.pausedSince = h.paused
		k.heldBy, since = p.by(h)
		if k.heldBy != "" {
			k.Priority, k.Reasons = max(k.Priority, h.lane.Priority), mergeReasons(h.reasons, k.Reasons)
			k.Group = cmp.Or(h.lane.Group, k.Group)
		}
		if k.heldBy != byPause && k.heldBy != byDrain {
			k.heldUntil = h.until
		}
	}
	switch {
	case k.heldBy != "":
	case info.State == workqueue.Delayed && time.Until(info.Next) > never/2:
		k.heldBy, k.Next = "next run", time.Time{} // delayed since the fenced write
	case info.State == 0:
		since = k.pausedSince
	}
	// A held key that has just been added is ready, or in flight, until it is held again.
	if !since.IsZero() && info.State != workqueue.Ready && info.State != workqueue.InProcess {
		k.Since = since
	}
	return k
}

// mergeReasons returns older and newer, each once.
func mergeReasons(older, newer []workqueue.Reason) []workqueue.Reason {
	if len(older) == 0 {
		return newer
	}
	all := slices.Clone(older)
	for _, r := range newer {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}
