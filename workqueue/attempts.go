package workqueue

import (
	"math"
	"time"
)

// remember is how long the failures of a key are known that was never forgotten and that the queue has nothing else to do
// with.
const remember = time.Hour

// AddRateLimited says that an attempt has failed. It adds key after a delay, the backoff, which grows with each call until
// Forget, or parks key when that was the last attempt that it gets. An addition in the meantime ends the backoff: the attempt
// that it waits for comes sooner. So there is none if the key is ready, or was added while in process. Of several backoffs
// of one key the earliest counts. After a shutdown AddRateLimited does nothing.
func (q *Queue[K]) AddRateLimited(key K) {
	q.fail(key, 0, false, AddOptions{})
}

// fail counts a failure of key and adds it after d, if that is given, or else after its backoff. It reports whether key comes
// back for that.
func (q *Queue[K]) fail(key K, d time.Duration, given bool, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	if !given && !q.doubles {
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
	if e.state == parked {
		q.mu.Unlock()
		return false
	}
	q.noteReasonLocked(e, opts.Reason)
	if opts.Priority != 0 {
		q.raiseLocked(e, opts.Priority)
	}
	details := q.pool.own(e)
	if details.failures == 0 {
		details.failedAt = q.now()
	}
	if details.failures < maxFailures {
		details.failures++
	}
	if !given {
		d = exponential(q.base, q.limit, int(e.failures)-1)
	}
	parkedAfter := 0
	var w *waiter
	added := false
	spent := q.isSpentLocked(e)
	switch {
	case spent:
		parkedAfter = q.spendLocked(e)
	case e.state == ready || e.dirty: // the next attempt is to come
	case d > 0:
		now := q.now()
		if at := later(now, d); opts.Policy.counts(e.retryAt, at) {
			details.retryAt = at
			q.rescheduleAtLocked(e, now)
		}
	default:
		w, added = q.makeReadyLocked(e)
	}
	q.mu.Unlock()
	w.wake()
	if spent {
		// While the key is in process nobody else asks the limiter of it, and when it is revived the limiter is as new.
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

// failures returns how often key, of which it is given the hash, has failed, and whether one more failure would count.
func (q *Queue[K]) failures(key K, hash uint32) (n int, counts bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutdown {
		return 0, false
	}
	e := q.entries.find(key, hash)
	if e == nil {
		return 0, true
	}
	return int(e.failures), e.state != parked
}

// Forget says that key has succeeded, or is given up: its next backoff starts small again, its budget is whole, and a
// backoff that it waits for is over. Its place in line and its wake-up stay as they are, and so does a key that is parked.
func (q *Queue[K]) Forget(key K) {
	checkKey(key)
	q.limiterForgets(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.get(key)
	if e == nil || e.failures == 0 || e.state == parked {
		return
	}
	e.failures, e.failedAt, e.spent = 0, 0, false
	if e.state == remembered {
		q.memory.remove(e)
		q.dropLocked(e)
		return
	}
	q.endBackoffLocked(e)
	q.restLocked(e)
}

// limiterForgets tells the limiter that the queue does not count the failures of key until now any more.
func (q *Queue[K]) limiterForgets(key K) {
	if q.cfg.RateLimiter != nil {
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

// NumRequeues returns the failures of key since it was last forgotten: the calls of AddRateLimited. The queue counts them, it
// does not ask Config.RateLimiter.
func (q *Queue[K]) NumRequeues(key K) int {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries.get(key); e != nil {
		return int(e.failures)
	}
	return 0
}

// RetryParked makes a parked key ready, with a whole budget. It reports whether it did: after a shutdown it does nothing. An
// Add does the same, after Config.Debounce, and so does an AddAfter when it is due.
func (q *Queue[K]) RetryParked(key K) bool {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil || e.state != parked || q.shutdown {
		q.mu.Unlock()
		return false
	}
	w, _ := q.makeReadyLocked(e)
	q.mu.Unlock()
	w.wake()
	if q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
	return true
}

// DropParked forgets a parked key, but for a wake-up of AddAfter, or an Add that waits for Config.Debounce. It reports whether
// the key was parked.
func (q *Queue[K]) DropParked(key K) bool {
	checkKey(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.get(key)
	if e == nil || e.state != parked {
		return false
	}
	q.reviveLocked(e)
	e.since = q.now()
	q.restLocked(e)
	return true
}

// isSpentLocked reports whether the last failure of e was the last that it may have.
func (q *Queue[K]) isSpentLocked(e *entry[K]) bool {
	return q.cfg.MaxAttempts > 0 && int(e.failures) >= q.cfg.MaxAttempts ||
		q.cfg.MaxElapsed > 0 && q.now()-e.failedAt >= int64(q.cfg.MaxElapsed)
}

// spendLocked parks e, at once or when it is done. A key that was added since is not parked: the addition gives it a new
// budget. It returns the attempts after which e was parked, 0 if it was not, or not yet.
func (q *Queue[K]) spendLocked(e *entry[K]) (attempts int) {
	q.endBackoffLocked(e)
	switch e.state {
	case processing:
		e.spent = true
	case ready:
		e.failures, e.failedAt = 0, 0
	case resting:
		attempts = int(e.failures)
		q.parkLocked(e)
	}
	return attempts
}

// parkLocked parks e, which is in no list.
func (q *Queue[K]) parkLocked(e *entry[K]) {
	e.spent = false
	q.enterLocked(e, parked)
	e.since = q.now()
	q.parked.push(e)
}

// reviveLocked gives e a whole budget, and takes it out of those that are parked.
func (q *Queue[K]) reviveLocked(e *entry[K]) {
	if e.state == parked {
		q.parked.remove(e)
		q.enterLocked(e, resting)
	}
	e.failures, e.failedAt, e.spent = 0, 0, false
}

// rememberLocked keeps e, with which there is nothing to do, for what is known of its failures.
func (q *Queue[K]) rememberLocked(e *entry[K]) {
	q.enterLocked(e, remembered)
	e.since = q.now()
	e.priority = 0
	q.memory.push(e)
	if q.memory.n == 1 {
		q.armLocked()
	}
}

// forgetOldLocked lets a batch of those go that were remembered for long enough. It returns the keys that the limiter has to
// forget as well.
func (q *Queue[K]) forgetOldLocked(now int64) (keys []K) {
	for range batch {
		e := q.memory.head()
		if e == nil || q.shutdown || now-e.since < int64(remember) {
			break
		}
		if q.cfg.RateLimiter != nil {
			keys = append(keys, e.key)
		}
		q.memory.remove(e)
		q.dropLocked(e)
	}
	return keys
}

// exponential returns base doubled n times, at most limit. A base that is not positive does not grow.
func exponential(base, limit time.Duration, n int) time.Duration {
	switch {
	case base <= 0:
		return min(base, limit)
	case n >= 62 || base > math.MaxInt64>>n:
		return limit
	}
	return min(base<<n, limit)
}
