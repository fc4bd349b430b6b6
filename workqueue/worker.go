package workqueue

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// Item is a key that was dispatched to a worker, with what the queue has recorded about it. It may be copied. Its methods are safe for
// concurrent use.
type Item[K comparable] struct {
	Key          K
	Attempt      int       // 1 plus the number of failures that count since the key was last forgotten: see Queue.AddRateLimited
	FirstFailure time.Time // the first failure since then; zero if there is none
	Priority     int
	Reasons      []Reason // why the key was added, the oldest first

	queue  *Queue[K]
	number uint64 // of the dispatch
}

// Take waits for a ready key and dispatches it to the caller: no other worker gets it until [Item.Done].
//
// If ctx has ended or ends during the call, Take takes no key and returns the cause of ctx. That holds even if a key is ready or the queue
// is shut down. Otherwise, Take returns a key as soon as one may be dispatched. It returns [ErrShutDown] when the queue is shut down and
// no key can become ready anymore. So after a shutdown Take waits while a key is dirty, because the Done of that key makes it ready. A
// goroutine that must call this Done itself would deadlock in Take: it calls [Queue.TryTake].
func (q *Queue[K]) Take(ctx context.Context) (Item[K], error) {
	if ctx.Err() != nil {
		return Item[K]{}, context.Cause(ctx)
	}
	var item Item[K]
	switch _, r := q.wait(ctx.Done(), &item, true); r {
	case gotKey:
		return item, nil
	case gotShutdown:
		return Item[K]{}, ErrShutDown
	default:
		return Item[K]{}, context.Cause(ctx)
	}
}

// TryTake is [Queue.Take] without the wait. It returns false if no key may be dispatched now.
func (q *Queue[K]) TryTake() (item Item[K], ok bool) {
	q.mu.Lock()
	e := q.takeLocked()
	if e == nil {
		q.mu.Unlock()
		return item, false
	}
	q.dispatch(e, &item)
	return item, true
}

// TryTakeKey is [Queue.TryTake] for a key that the caller chooses, out of turn. It returns false if the key is not ready or may not be
// dispatched now. It is for tests and simulations that decide the order of events. [Queue.Ready] lists the keys.
func (q *Queue[K]) TryTakeKey(key K) (item Item[K], ok bool) {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil || e.state != Ready || !q.line.mayStart(e.group) || !q.mayDispatchLocked() {
		q.mu.Unlock()
		return item, false
	}
	q.line.remove(e)
	q.takenLocked(e)
	q.dispatch(e, &item)
	return item, true
}

// Get waits for a ready key and dispatches it to the caller: no other worker gets it until Done. After a shutdown, Get returns the keys
// that are still ready, and then true for shutdown. As in client-go, it does so even if a key is dirty. A dirty key becomes ready with its
// Done, and the worker that has it must then call Get again. If other goroutines do the work, use [Queue.Take].
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, result := q.wait(nil, nil, false)
	return key, result != gotKey
}

// GetItem is Get that also says what the queue has recorded about the key. The caller calls [Item.Done], or Done with its key.
func (q *Queue[K]) GetItem() (item Item[K], shutdown bool) {
	_, result := q.wait(nil, &item, false)
	return item, result != gotKey
}

// result says how a wait ended.
type result int

const (
	gotKey result = iota
	gotShutdown
	gotCanceled
)

// wait waits until a key may be dispatched, the queue is over, or done is closed. With dirtyToo, a queue that is not paused is over only when
// no key is dirty. wait fills in item, unless item is nil.
func (q *Queue[K]) wait(done <-chan struct{}, item *Item[K], dirtyToo bool) (key K, r result) {
	q.mu.Lock()
	for {
		select {
		case <-done: // it may have been closed while this worker slept or waited for the lock
			other := q.waiterToWakeLocked() // instead of this one, if it was woken
			q.mu.Unlock()
			other.wake()
			return key, gotCanceled
		default:
		}
		if e := q.takeLocked(); e != nil {
			return q.dispatch(e, item), gotKey
		}
		if q.isOverLocked() && (q.paused || !dirtyToo || q.dirty == 0) {
			q.mu.Unlock()
			return key, gotShutdown
		}
		w := q.waiters.add()
		q.mu.Unlock()

		canceled := false
		if done == nil {
			<-w.signal
		} else {
			select {
			case <-w.signal:
			case <-done:
				canceled = true
			}
		}

		q.mu.Lock()
		switch {
		case !canceled:
			q.waiters.reuse(w)
		case w.listed:
			q.waiters.remove(w)
			q.waiters.reuse(w)
		default:
			// The waiter was woken as well. The value may not have been sent yet, so the waiter is not reused.
		}
	}
}

// Done reports that the work on the item has ended. Only the first call has an effect, and it never affects a later dispatch of the same
// key.
func (i Item[K]) Done() { i.end(false) }

// Skip is [Item.Done] for work that has not begun, for example because another replica has the key. Config.DispatchLimit gets the token of
// the dispatch back, so it limits only the work that begins. In all else, Skip is Done: hooks, Totals, and reports of failures in
// between do not distinguish the two.
func (i Item[K]) Skip() { i.end(true) }

func (i Item[K]) end(skipped bool) {
	q := i.queue
	q.mu.Lock()
	e := q.dispatchedLocked(i.Key)
	if e == nil || e.state != InProcess || e.number != i.number {
		q.mu.Unlock()
		return
	}
	q.done(e, skipped)
}

// Done reports that the work on key has ended. If key was added in the meantime, it becomes ready again, at the end of the line. Done of a
// key that is not in process is a bug in the worker loop: it changes nothing, and is reported to Hooks.StrayDone.
func (q *Queue[K]) Done(key K) {
	checkKey(key)
	q.mu.Lock()
	e := q.dispatchedLocked(key)
	if e != nil && e.state == InProcess {
		q.done(e, false)
		return
	}
	q.mu.Unlock()
	if q.cfg.Hooks.StrayDone != nil {
		q.cfg.Hooks.StrayDone(key)
		return
	}
	q.cfg.Logger.Error("Done was called for a key that is not in process", "queue", q.cfg.Name, "key", key)
}

// dispatchedLocked returns the entry of key. If key was not dispatched, the entry is nil or in another state.
func (q *Queue[K]) dispatchedLocked(key K) *entry[K] {
	if e := q.last; e != nil && e.key == key {
		return e
	}
	return q.entries.get(key)
}

// takeLocked takes the next entry out of its line, or returns nil if none may be dispatched. The caller calls dispatch next.
func (q *Queue[K]) takeLocked() *entry[K] {
	if !q.mayDispatchLocked() {
		return nil
	}
	e := q.line.pop()
	if e != nil {
		q.takenLocked(e)
	}
	return e
}

// takenLocked records that e was taken out of its line.
func (q *Queue[K]) takenLocked(e *entry[K]) {
	q.line.begin(e)
	q.enterLocked(e, InProcess)
	e.raised = false
	q.inProcess++
	q.last = e
}

// dispatch completes the dispatch of e, which was taken: it fills in item, unless item is nil, releases the lock, and calls the hook. It
// returns the key of e.
func (q *Queue[K]) dispatch(e *entry[K], item *Item[K]) K {
	key := e.key
	if item != nil {
		*item = Item[K]{
			Key: key, Attempt: int(e.failures) + 1, FirstFailure: q.time(e.firstFailure), Priority: e.priority, Reasons: e.reasons.list(),
			queue: q, number: e.number,
		}
	}
	var waited int64
	priority := 0
	if q.cfg.Timestamps { // on if the hook needs it
		priority = e.priority
		now := q.now()
		waited, e.since, e.addedAt = now-e.addedAt, now, 0
		q.waited.add(time.Duration(waited))
		q.busy.push(e)
	}
	var w *waiter
	if q.cfg.DispatchLimit != nil {
		w = q.waiterToWakeLocked() // another worker, to wait for the limit
	}
	ended := q.waitersToEndLocked()
	q.mu.Unlock()
	w.wake()
	wakeAll(ended)
	if q.cfg.Hooks.Dispatched != nil {
		q.cfg.Hooks.Dispatched(key, priority, time.Duration(waited))
	}
	return key
}

// done ends the work on e, which has not begun if skipped, and releases the lock.
func (q *Queue[K]) done(e *entry[K], skipped bool) {
	key := e.key
	var took int64
	if q.cfg.Timestamps {
		now := q.now()
		took, e.since = now-e.since, now
		q.worked.add(time.Duration(took))
		q.busy.remove(e)
	}
	q.inProcess--
	if q.last == e {
		q.last = nil
	}
	freed := q.line.end(e)
	parkedAfter := 0
	var w, other *waiter
	q.enterLocked(e, Delayed)
	switch {
	case e.dirty:
		q.cleanLocked(e)
		if e.spent {
			q.reviveLocked(e)
		}
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	case e.spent:
		parkedAfter = int(e.failures)
		q.parkLocked(e)
	default:
		q.settleLocked(e)
	}
	if skipped && q.limit != nil {
		q.limit.putBack(time.Now())
		freed = true
	}
	if freed {
		other = q.waiterToWakeLocked()
	}
	idle := q.idleLocked()
	q.mu.Unlock()
	w.wake()
	other.wake()
	announce(idle)
	if q.cfg.Hooks.Done != nil {
		q.cfg.Hooks.Done(key, time.Duration(took))
	}
	if parkedAfter > 0 && q.cfg.Hooks.Parked != nil {
		q.cfg.Hooks.Parked(key, parkedAfter)
	}
}

// mayDispatchLocked reports whether the queue is not paused and the limit allows a dispatch, if a key may be dispatched. If not, it makes sure
// that a worker wakes up in time.
func (q *Queue[K]) mayDispatchLocked() bool {
	return !q.paused && (q.limit == nil || q.line.available() && q.limit.allow(time.Now()))
}

// dispatchAllowed runs when the limit allows a dispatch again.
func (q *Queue[K]) dispatchAllowed() {
	q.mu.Lock()
	w := q.waiterToWakeLocked()
	q.mu.Unlock()
	w.wake()
}

// waiter is a worker that waits for a key.
type waiter struct {
	signal chan struct{} // gets one value for each removal of the waiter by pop or clear, sent without the lock

	prev, next *waiter
	listed     bool
}

// wake signals that the worker should look for a key again. It gives the worker no key: a worker that is already awake may take the key first,
// which is cheaper than handing it over. A nil waiter is nobody. wake never blocks: the channel has one slot.
func (w *waiter) wake() {
	if w != nil {
		w.signal <- struct{}{}
	}
}

// wakeAll wakes all of ws.
func wakeAll(ws []*waiter) {
	for _, w := range ws {
		w.wake()
	}
}

// waiterList is a list of waiters, the longest waiting first, and a stock of waiters to reuse. The zero value is empty.
type waiterList struct {
	first, last *waiter
	stock       *waiter // linked by next
}

// empty reports whether no worker waits.
func (l *waiterList) empty() bool { return l.first == nil }

// add puts a waiter at the end of the list.
func (l *waiterList) add() *waiter {
	w := l.stock
	if w != nil {
		l.stock = w.next
	} else {
		w = &waiter{signal: make(chan struct{}, 1)}
	}
	w.prev, w.next, w.listed = l.last, nil, true
	if l.last != nil {
		l.last.next = w
	} else {
		l.first = w
	}
	l.last = w
	return w
}

// remove removes a listed waiter, which gets no signal.
func (l *waiterList) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		l.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		l.last = w.prev
	}
	w.prev, w.next, w.listed = nil, nil, false
}

// pop removes the longest waiting waiter, and returns it for the caller to wake. It returns nil if there is none.
func (l *waiterList) pop() *waiter {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

// clear removes all waiters, and returns them for the caller to wake.
func (l *waiterList) clear() (ws []*waiter) {
	for w := l.pop(); w != nil; w = l.pop() {
		ws = append(ws, w)
	}
	return ws
}

// reuse keeps a waiter for the next add. It must not be listed, and must have no signal that was not received, not even one to come.
func (l *waiterList) reuse(w *waiter) {
	w.next = l.stock
	l.stock = w
}

// dispatchLimit enforces Config.DispatchLimit: it takes a token of the limiter for each key that is dispatched, and reserves none ahead. So
// no key waits for a token on behalf of another, and a burst is never larger than the limiter allows.
type dispatchLimit struct {
	limiter *rate.Limiter
	wake    func() // wakes a worker, which asks again; called without the lock

	next  time.Time   // as last computed, the limiter allows nothing before this time
	timer *time.Timer // calls wake at that time; nil until it is needed
}

// recheck is the longest time between two checks of the limiter, whose limit may have changed.
const recheck = time.Minute

// allow takes a token, if there is one now. If not, it takes none, returns false, and has wake called in time.
func (l *dispatchLimit) allow(now time.Time) bool {
	wait := l.next.Sub(now)
	if wait <= 0 {
		token := l.limiter.ReserveN(now, 1)
		wait = token.DelayFrom(now) // forever, if the limiter's burst is zero
		if wait <= 0 {
			return true
		}
		token.CancelAt(now)
		wait = min(wait, recheck)
		l.next = now.Add(wait)
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, l.wake)
	} else {
		l.timer.Reset(wait)
	}
	return false
}

// putBack returns the token of an allow that returned true, for the next allow or another user of the limiter: the work that it allowed has
// not begun. A limiter that is full drops it.
func (l *dispatchLimit) putBack(now time.Time) {
	// Reservation.Cancel returns no token that is due already.
	l.limiter.ReserveN(now, -1)
	l.next = time.Time{}
}
