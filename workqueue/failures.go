package workqueue

import (
	"math"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

// maxFailures is the greatest count of failures.
const maxFailures = math.MaxInt32

// AddRateLimited reports a failed attempt. It adds key after a backoff, which grows with each failure that counts, or parks key if that was
// the last attempt. If key already has a backoff, the earlier of the two stands. After a shutdown, AddRateLimited does nothing.
//
// # The count
//
// A failure counts unless it comes before the latest backoff has ended. So the attempts that other additions bring in the meantime, however
// many, neither lengthen the backoff nor use up the budget:
//
//	the failure comes                    count  NumRequeues  limiter    the next backoff ends
//	-----------------                    -----  -----------  -------    ---------------------
//	first, or after the latest backoff   +1     +1           asked      after its delay
//	before the end of the latest one     same   +1           asked      at that end, or after its delay if that is earlier
//	before it, with a delay of its own   same   +1           not asked  the same, or after its delay with AddOptions.Replace
//	while the key is parked              same   same         not asked  never
//
// After an outage of length L, each key is therefore tried again within L and the first delay, and the duration of two attempts, if
// delays at most double.
//
// AddWith with RateLimited, and Park, report a failure too; that of Park always counts. The queue remembers the count, and the end of the
// latest backoff, while it has the key, and for Config.RememberFailures after that. The count returns to zero
//
//   - with Forget, unless the key is parked;
//   - when a parked key is revived or dropped, or a key that would be parked becomes ready instead;
//   - when that time is over, except after a shutdown.
//
// # The backoff
//
// The key does not wait for its backoff anymore when it becomes ready or dirty in another way, because that is the attempt it waits for. So
// ready and dirty keys have no backoff. If that attempt fails before the backoff would have ended, the backoff is back, with its old end. A
// failure of a ready or dirty key sets the end of the latest backoff in the same way, and schedules nothing.
//
// The delay is the one that AddWith sets with After or At, or else [Backoff] of Config.RateLimiter, the key, and the count, this failure
// included if it counts. So a failure with its own delay makes the next backoff longer, as any failure that counts does. Limiters from other
// packages count for themselves, as in client-go: the queue calls their When once for each failure without its own delay, even for one that
// does not count. It calls their Forget with each Forget, with each failure that spends the budget, and when that time is over. It may call
// Forget more often.
//
// # The budget
//
// A failure spends the budget if the count reaches Config.MaxAttempts with it, if it comes Config.MaxElapsed or more after the first one, or
// if it is reported by Park. So does each later failure of that attempt. Such a failure schedules nothing, ends a pending backoff,
// and makes AddWith return false. It never drops a wake-up.
//
//   - An absent key is parked at once.
//   - A key in process is parked with its Done. If it is dirty then, it becomes ready with a count of zero instead. A Forget before the
//     Done undoes the failure.
//   - A ready or dirty key keeps its state. The count of a ready key returns to zero, because an addition asked for the next attempt.
func (q *Queue[K]) AddRateLimited(key K) {
	q.fail(key, 0, false, false, AddOptions{})
}

// Park reports a failed attempt that must not be retried: it spends the budget of key. If reason is not empty, it is added to the reasons of
// key. After a shutdown, Park does nothing.
func (q *Queue[K]) Park(key K, reason string) {
	q.fail(key, 0, true, true, AddOptions{Reason: reason})
}

// fail reports a failure of key, and adds key after d if that is given, or else after its backoff. It reports whether key comes
// back because of it. A final failure spends the budget.
func (q *Queue[K]) fail(key K, d time.Duration, given, final bool, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	if !given && !q.doubles {
		failures, counts := q.countAfterFailure(key, hash)
		if !counts {
			return false
		}
		d, given = q.backoff(key, failures), true
	}
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	e := q.entryLocked(key, hash, group)
	if e.state == Parked {
		q.mu.Unlock()
		return false
	}
	q.regroupLocked(e, opts.Group)
	q.addReasonsLocked(e, opts)
	from, raised := 0, false
	if opts.Priority != 0 || opts.PrioritySet {
		from, raised = q.raiseLocked(e, opts.Priority, opts.PrioritySet)
	}
	details, now := q.entries.edit(e), q.now()
	early := details.backoffUntil > now && !final
	countLocked(details, now, early)
	if !given {
		d = exponential(q.baseDelay, q.maxDelay, int(e.failures)-1)
	}
	parkedAfter := 0
	var w *waiter
	added := false
	spent := final || e.spent || q.isSpentLocked(e)
	if spent {
		parkedAfter = q.spendLocked(e)
	} else {
		at := later(now, max(d, 0))
		if early && !opts.Replace {
			at = min(at, e.backoffUntil)
		}
		w, added = q.retryLocked(e, at, now, opts.Replace)
		q.delayed++
	}
	priority := e.priority
	q.mu.Unlock()
	w.wake()
	if spent {
		// While the key is in process, no other call asks the limiter about it. When the key is revived, the limiter has forgotten it.
		q.limiterForgets(key)
	}
	hooks := &q.cfg.Hooks
	if !spent && hooks.Delayed != nil {
		hooks.Delayed(key, max(d, 0))
	}
	q.report(key, priority, added, from, raised)
	if parkedAfter > 0 && hooks.Parked != nil {
		hooks.Parked(key, parkedAfter)
	}
	return !spent
}

// countLocked counts a failure. One that is early does not lengthen the backoff.
func countLocked[K comparable](d *details[K], now int64, early bool) {
	if d.requeues == 0 {
		d.firstFailure = now
	}
	if d.requeues < maxFailures {
		d.requeues++
	}
	if !early && d.failures < maxFailures {
		d.failures++
	}
}

// retryLocked makes e, which has failed, due at a time. It returns the worker to wake, if any, and whether e became ready or dirty.
func (q *Queue[K]) retryLocked(e *entry[K], at, now int64, replace bool) (w *waiter, added bool) {
	switch {
	case e.state == Ready || e.dirty: // about to be tried anyway
		e.backoffUntil = at
	case at <= now:
		e.backoffUntil = at
		return q.makeReadyLocked(e)
	default:
		if replace || isSooner(at, e.retryAt) {
			e.retryAt = at
			q.rescheduleAtLocked(e, now)
		}
		e.backoffUntil = e.retryAt
	}
	return nil, false
}

// countAfterFailure returns the count after one more failure of key. It returns false if that failure changes nothing.
func (q *Queue[K]) countAfterFailure(key K, hash uint32) (n int, counts bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutdown {
		return 0, false
	}
	e := q.entries.find(key, hash)
	switch {
	case e == nil:
		return 1, true
	case e.backoffUntil > q.now():
		return int(e.failures), e.state != Parked
	}
	return int(e.failures) + 1, e.state != Parked
}

// Forget reports that key has succeeded, or that the caller has given up on it. Its count of failures returns to zero, its budget is whole,
// and its backoff ends. Its place in line and its wake-up do not change. A parked key does not change at all.
func (q *Queue[K]) Forget(key K) {
	checkKey(key)
	q.limiterForgets(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.get(key)
	if e == nil || !e.mustRemember() && e.retryAt == 0 || e.state == Parked {
		return
	}
	e.resetFailures()
	if e.state == Remembered {
		q.remembered.remove(e)
		q.removeLocked(e)
		return
	}
	q.endBackoffLocked(e)
	q.settleLocked(e)
}

// NumRequeues returns the number of failures of key since it was last forgotten: of all, as in client-go, even those that do not count for
// the backoff and the budget. The queue counts them itself and does not ask Config.RateLimiter.
func (q *Queue[K]) NumRequeues(key K) int {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries.get(key); e != nil {
		return int(e.requeues)
	}
	return 0
}

// Parked returns the parked keys, the longest parked first. Add revives a key.
func (q *Queue[K]) Parked() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]K, 0, q.parked.len())
	for e := range q.parked.all() {
		keys = append(keys, e.key)
	}
	return keys
}

// DropParked forgets a parked key, except for a wake-up or a quiet time. It reports whether the key was parked.
func (q *Queue[K]) DropParked(key K) bool {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.get(key)
	if e == nil || e.state != Parked {
		return false
	}
	q.reviveLocked(e)
	e.since = q.now()
	q.settleLocked(e)
	return true
}

// backoff is Backoff of the queue's limiter. If that panics, it is that of the default limiter.
func (q *Queue[K]) backoff(key K, failures int) (d time.Duration) {
	d = Backoff[K](nil, key, failures)
	defer q.cfg.recovered("RateLimiter.When")
	return Backoff(q.cfg.RateLimiter, key, failures)
}

// limiterForgets makes the limiter forget the failures of key.
func (q *Queue[K]) limiterForgets(key K) {
	if q.cfg.RateLimiter != nil {
		defer q.cfg.recovered("RateLimiter.Forget")
		q.cfg.RateLimiter.Forget(key)
	}
}

// endBackoffLocked ends the backoff of e, if it has one.
func (q *Queue[K]) endBackoffLocked(e *entry[K]) {
	if e.retryAt != 0 {
		e.retryAt = 0
		q.rescheduleLocked(e)
	}
}

// isSpentLocked reports whether the latest failure of e has spent its budget. The queue of a controller has none: the controller counts
// itself, because Config.GaveUp comes before a key is parked.
func (q *Queue[K]) isSpentLocked(e *entry[K]) bool {
	var u outcome.Unfinished
	if e.unfinished != nil {
		u = *e.unfinished
	}
	return q.budget.Spent(int(e.failures), q.time(e.firstFailure), u)
}

// spendLocked parks e, now or with its Done, unless an addition gives it a new budget. It returns the number of attempts if it
// parked e now, or else 0.
func (q *Queue[K]) spendLocked(e *entry[K]) (attempts int) {
	q.endBackoffLocked(e)
	switch e.state {
	case InProcess:
		e.spent = true
	case Ready:
		e.resetFailures()
	case Delayed:
		attempts = int(e.failures)
		q.parkLocked(e)
	}
	return attempts
}

// parkLocked parks e, which is in no list.
func (q *Queue[K]) parkLocked(e *entry[K]) {
	e.spent = false
	q.enterLocked(e, Parked)
	e.since = q.now()
	q.parked.push(e)
}

// reviveLocked gives e a whole budget, and removes it from the parked keys.
func (q *Queue[K]) reviveLocked(e *entry[K]) {
	if e.state == Parked {
		q.parked.remove(e)
		q.enterLocked(e, Delayed)
	}
	e.resetFailures()
}

// rememberLocked keeps e only for its count of failures.
func (q *Queue[K]) rememberLocked(e *entry[K]) {
	q.enterLocked(e, Remembered)
	e.since = q.now()
	e.priority = 0
	q.remembered.push(e)
	if q.remembered.len() == 1 {
		q.armLocked()
	}
}

// forgetOldLocked removes a batch of the keys that were remembered long enough. It returns those that the limiter must forget.
func (q *Queue[K]) forgetOldLocked(now int64) (keys []K) {
	for range batch {
		e := q.remembered.head()
		if e == nil || q.cfg.RememberFailures < 0 || now-e.since < int64(q.cfg.RememberFailures) {
			break
		}
		if q.cfg.RateLimiter != nil {
			keys = append(keys, e.key)
		}
		q.remembered.remove(e)
		q.removeLocked(e)
	}
	return keys
}
