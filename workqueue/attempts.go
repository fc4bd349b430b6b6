package workqueue

import (
	"math"
	"time"
)

// remember is how long the failures of a key are known that was never forgotten and that the queue has nothing else to do
// with.
const remember = time.Hour

// The backoff of a queue without a limiter of its own.
const (
	baseDelay = 5 * time.Millisecond
	maxDelay  = 1000 * time.Second
)

// AddRateLimited says that an attempt has failed. It adds key after a delay, which grows with each call until Forget, or
// parks it when that was the last attempt that it gets. The wake-up is a backoff: when the key is handed out before,
// because it was added meanwhile, that attempt takes its place. Of several wake-ups of one key the earliest counts.
// After a shutdown AddRateLimited does nothing.
func (q *Queue[K]) AddRateLimited(key K) {
	q.fail(key, 0, false, AddOptions{})
}

// fail counts a failure of key and adds it after d, if that is given, or else after its backoff. It reports whether key comes
// back for that.
func (q *Queue[K]) fail(key K, d time.Duration, given bool, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	if !given && q.cfg.RateLimiter != nil {
		d, given = q.cfg.RateLimiter.When(key), true
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
		d = exponential(baseDelay, maxDelay, int(e.failures)-1)
	}
	parkedAfter := 0
	var w *waiter
	added := false
	spent := q.isSpentLocked(e)
	switch {
	case spent:
		parkedAfter = q.spendLocked(e)
	case d > 0:
		q.wakeUpByLocked(e, d, true, opts.Policy)
	default:
		w, added = q.makeReadyLocked(e)
	}
	q.mu.Unlock()
	w.wake()
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

// Forget says that key has succeeded, or is given up: its next backoff starts small again, and its budget is whole. Its
// place in line and its wake-up stay as they are, and so does a key that is parked.
func (q *Queue[K]) Forget(key K) {
	checkKey(key)
	if q.cfg.RateLimiter != nil {
		q.cfg.RateLimiter.Forget(key)
	}
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

// RetryParked makes a key that is parked ready, with a whole budget. It reports whether it did: after a shutdown it does
// nothing. An Add does the same, after Config.Debounce, and so does an AddAfter when it is due.
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

// DropParked forgets a key that is parked, but for a wake-up of AddAfter that is scheduled for it. It reports whether the
// key was parked.
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
	if e.backoff {
		q.wakeUpLocked(e, 0, false)
	}
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

// forgetOldLocked lets those go that were remembered for long enough. Some at most, so that nobody waits for long: the
// timer comes again for the others.
func (q *Queue[K]) forgetOldLocked(now int64) {
	for range 1000 {
		e := q.memory.head()
		if e == nil || now-e.since < int64(remember) {
			return
		}
		q.memory.remove(e)
		q.dropLocked(e)
	}
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
