package workqueue

import (
	"math"
	"time"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// remember is how long the queue keeps the failure count of a key that it no longer tracks otherwise.
const remember = time.Hour

// maxFailures is the greatest count of failures.
const maxFailures = math.MaxInt32

// AddRateLimited reports a failed attempt. It adds key after a backoff, which grows with each failure, or parks key if that was the last
// attempt. If key already has a backoff, the earlier of the two counts. After a shutdown, AddRateLimited does nothing.
//
// # The count
//
// Each call counts one failure, unless the key is parked. So does an AddWith with RateLimited or Final. The queue remembers the count
// while it has the key, and for an hour after that. The count returns to zero
//
//   - with Forget, unless the key is parked;
//   - when a parked key is revived or dropped, or a key that would be parked becomes ready instead;
//   - when the hour is over, except after a shutdown.
//
// # The backoff
//
// The backoff ends when the key becomes ready or dirty in another way, because that is the attempt it waits for. So ready and dirty keys
// get no backoff. Its delay is the one that AddWith sets with After or At, or else [Backoff] of Config.RateLimiter, the key, and the count,
// this failure included. So a failure with its own delay makes the next backoff longer, as any failure does. Limiters from other packages
// count for themselves. The queue calls their When once for each failure without its own delay. It calls their Forget with each Forget,
// with each failure that spends the budget, and when the hour is over. It may call Forget more often.
//
// # The budget
//
// A failure spends the budget if it is number Config.MaxAttempts, comes Config.MaxElapsed or more after the first one, or is added with
// AddOptions.Final. So does each later failure of that attempt. Such a failure schedules nothing, ends a pending backoff, and makes AddWith
// return false. It never drops a wake-up.
//
//   - An absent key is parked at once.
//   - A key in process is parked with its Done. If it is dirty then, it becomes ready with a count of zero instead. A Forget before the
//     Done undoes the failure.
//   - A ready or dirty key keeps its state. The count of a ready key returns to zero, because an addition asked for the next attempt.
func (q *Queue[K]) AddRateLimited(key K) {
	q.fail(key, 0, false, AddOptions{})
}

// fail counts a failure of key, and adds key after d if that is given, or else after its backoff. It reports whether key comes
// back because of it.
func (q *Queue[K]) fail(key K, d time.Duration, given bool, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.Hash(key), q.groupOf(key)
	if !given && !q.doubles && !opts.Final {
		failures, counts := q.failures(key, hash)
		if !counts {
			return false
		}
		d, given = Backoff(q.cfg.RateLimiter, key, failures+1), true
	}
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	e := q.entryLocked(key, hash, group)
	if e.State == entry.Parked {
		q.mu.Unlock()
		return false
	}
	q.noteReasonLocked(e, opts.Reason)
	if opts.Priority != 0 {
		q.raiseLocked(e, opts.Priority)
	}
	details := q.entries.Own(e)
	if details.Failures == 0 {
		details.FailedAt = q.now()
	}
	if details.Failures < maxFailures {
		details.Failures++
	}
	if !given {
		d = exponential(q.base, q.limit, int(e.Failures)-1)
	}
	parkedAfter := 0
	var w *waiters.Waiter
	added := false
	spent := opts.Final || e.Spent || q.isSpentLocked(e)
	switch {
	case spent:
		parkedAfter = q.spendLocked(e)
	case e.State == entry.Ready || e.Dirty: // about to be tried anyway
	case d > 0:
		now := q.now()
		if at := later(now, d); opts.Policy.counts(e.RetryAt, at) {
			details.RetryAt = at
			q.rescheduleAtLocked(e, now)
		}
	default:
		w, added = q.makeReadyLocked(e)
	}
	if !spent {
		q.delayed++
	}
	q.mu.Unlock()
	wake(w)
	if spent {
		// While the key is in process, no other call asks the limiter about it. When the key is revived, the limiter has forgotten it.
		q.limiterForgets(key)
	}
	hooks := &q.cfg.Hooks
	if !spent && hooks.Delayed != nil {
		hooks.Delayed(key, max(d, 0))
	}
	if added && hooks.Added != nil {
		hooks.Added(key)
	}
	if parkedAfter > 0 && hooks.Parked != nil {
		hooks.Parked(key, parkedAfter)
	}
	return !spent
}

// failures returns the count of key's failures, and whether one more would count.
func (q *Queue[K]) failures(key K, hash uint32) (n int, counts bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutdown {
		return 0, false
	}
	e := q.entries.Find(key, hash)
	if e == nil {
		return 0, true
	}
	return int(e.Failures), e.State != entry.Parked
}

// Forget reports that key has succeeded, or that the caller has given up on it. Its count of failures returns to zero, its budget is whole,
// and its backoff ends. Its place in line and its wake-up do not change. A parked key does not change at all.
func (q *Queue[K]) Forget(key K) {
	checkKey(key)
	q.limiterForgets(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.Get(key)
	if e == nil || e.Failures == 0 || e.State == entry.Parked {
		return
	}
	e.Failures, e.FailedAt, e.Spent = 0, 0, false
	if e.State == entry.Remembered {
		q.memory.Remove(e)
		q.removeLocked(e)
		return
	}
	q.endBackoffLocked(e)
	q.restLocked(e)
}

// NumRequeues returns the number of failures of key since it was last forgotten. The queue counts them itself and does not ask
// Config.RateLimiter.
func (q *Queue[K]) NumRequeues(key K) int {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries.Get(key); e != nil {
		return int(e.Failures)
	}
	return 0
}

// Parked returns the parked keys, the longest parked first. Add revives a key.
func (q *Queue[K]) Parked() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]K, 0, q.parked.Len())
	for e := range q.parked.All() {
		keys = append(keys, e.Key)
	}
	return keys
}

// DropParked forgets a parked key, except for a wake-up or a quiet time. It reports whether the key was parked.
func (q *Queue[K]) DropParked(key K) bool {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.Get(key)
	if e == nil || e.State != entry.Parked {
		return false
	}
	q.reviveLocked(e)
	e.Since = q.now()
	q.restLocked(e)
	return true
}

// limiterForgets makes the limiter forget the failures of key.
func (q *Queue[K]) limiterForgets(key K) {
	if q.cfg.RateLimiter != nil {
		q.cfg.RateLimiter.Forget(key)
	}
}

// endBackoffLocked ends the backoff of e, if it has one.
func (q *Queue[K]) endBackoffLocked(e *entry.Entry[K]) {
	if e.RetryAt != 0 {
		e.RetryAt = 0
		q.rescheduleLocked(e)
	}
}

// isSpentLocked reports whether the latest failure of e has spent its budget.
func (q *Queue[K]) isSpentLocked(e *entry.Entry[K]) bool {
	return q.cfg.MaxAttempts > 0 && int(e.Failures) >= q.cfg.MaxAttempts ||
		q.cfg.MaxElapsed > 0 && q.now()-e.FailedAt >= int64(q.cfg.MaxElapsed)
}

// spendLocked parks e, now or with its Done, unless an addition gives it a new budget. It returns the number of attempts if it
// parked e now, or else 0.
func (q *Queue[K]) spendLocked(e *entry.Entry[K]) (attempts int) {
	q.endBackoffLocked(e)
	switch e.State {
	case entry.Processing:
		e.Spent = true
	case entry.Ready:
		e.Failures, e.FailedAt = 0, 0
	case entry.Resting:
		attempts = int(e.Failures)
		q.parkLocked(e)
	}
	return attempts
}

// parkLocked parks e, which is in no list.
func (q *Queue[K]) parkLocked(e *entry.Entry[K]) {
	e.Spent = false
	q.enterLocked(e, entry.Parked)
	e.Since = q.now()
	q.parked.Push(e)
}

// reviveLocked gives e a whole budget, and removes it from the parked keys.
func (q *Queue[K]) reviveLocked(e *entry.Entry[K]) {
	if e.State == entry.Parked {
		q.parked.Remove(e)
		q.enterLocked(e, entry.Resting)
	}
	e.Failures, e.FailedAt, e.Spent = 0, 0, false
}

// rememberLocked keeps e only for its count of failures.
func (q *Queue[K]) rememberLocked(e *entry.Entry[K]) {
	q.enterLocked(e, entry.Remembered)
	e.Since = q.now()
	e.Priority = 0
	q.memory.Push(e)
	if q.memory.Len() == 1 {
		q.armLocked()
	}
}

// forgetOldLocked removes a batch of the keys that were remembered long enough. It returns those that the limiter must forget.
func (q *Queue[K]) forgetOldLocked(now int64) (keys []K) {
	for range batch {
		e := q.memory.Head()
		if e == nil || now-e.Since < int64(remember) {
			break
		}
		if q.cfg.RateLimiter != nil {
			keys = append(keys, e.Key)
		}
		q.memory.Remove(e)
		q.removeLocked(e)
	}
	return keys
}
