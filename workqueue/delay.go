package workqueue

import (
	"math"
	"time"
)

// AddOptions says how [Queue.AddWith] adds a key. The zero value is Add.
type AddOptions struct {
	// After is how long the key waits before it is added. A negative one is now. At most one of After and At is set.
	After time.Duration

	// At is when the key is added. A time in the past is now.
	At time.Time

	// RateLimited says that an attempt has failed, as AddRateLimited does. The key waits for as long as After or At say,
	// for example because the service that failed told when to try again. If they are not set, Config.RateLimiter is
	// asked. All else is the same: it is a backoff, and the key is parked if that was the last attempt that it gets.
	RateLimited bool

	// Policy says which of two wake-ups counts, or of two backoffs with RateLimited, if the key has one already.
	Policy Policy

	// Priority is the priority of the key: what is higher is handed out first. It is kept until the queue has nothing
	// more to do with the key, and only ever raised: of two priorities the higher counts. The other ways to add
	// have priority 0. A key that is added for later keeps the priority that it has, if Priority is 0. A hand-out takes time
	// for each priority in use: a few are as good as one.
	Priority int

	// Reason says why, for people: it is shown by Snapshot and in an Item. The queue keeps the last 8 of a key.
	Reason string
}

// Policy says which of two wake-ups of a key counts, or which of two backoffs.
type Policy int

const (
	Earliest Policy = iota // the earlier of the two
	Latest                 // the later of the two
	Replace                // the new one
)

// AddWith adds key as the options say. It is the general form of Add, AddAfter and AddRateLimited. It reports whether key comes
// back for that: not after a shutdown, and not for a failure that has spent the budget of key or that comes when key is
// parked. It panics if both After and At are set, or if there is no such Policy.
func (q *Queue[K]) AddWith(key K, opts AddOptions) bool {
	d, delayed := opts.After, opts.After != 0
	switch {
	case opts.Policy < Earliest || opts.Policy > Replace:
		panic("workqueue: AddWith: there is no such Policy")
	case delayed && !opts.At.IsZero():
		panic("workqueue: AddWith: only one of After and At can be set")
	case !opts.At.IsZero():
		d, delayed = time.Until(opts.At), true
	}
	if opts.RateLimited {
		return q.fail(key, d, delayed, opts)
	}
	return q.addAfter(key, d, delayed, opts)
}

// AddAfter adds key when d has passed; at once, and without Config.Debounce, if d is not positive. Of several wake-ups of
// one key the earliest counts and the others are dropped. An Add, an attempt or a backoff in the meantime does not drop the
// wake-up: it is a fact of its own about the key. After a shutdown AddAfter does nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	q.addAfter(key, d, true, AddOptions{})
}

// addAfter adds key, and reports whether it did. What is delayed is told to the hook for that, even if the delay is nothing,
// and is not debounced.
func (q *Queue[K]) addAfter(key K, d time.Duration, delayed bool, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	e := q.entryLocked(key, hash, group)
	q.noteReasonLocked(e, opts.Reason)
	var w *waiter
	added := false
	if d <= 0 || opts.Priority != 0 {
		q.raiseLocked(e, opts.Priority)
	}
	switch {
	case d > 0:
		now := q.now()
		if at := later(now, d); opts.Policy.counts(e.wakeAt, at) {
			e.wakeAt = at
			q.rescheduleAtLocked(e, now)
		}
	case delayed:
		w, added = q.makeReadyLocked(e)
	default:
		w, added = q.addLocked(e)
	}
	q.mu.Unlock()
	w.wake()
	if delayed && q.cfg.Hooks.Delayed != nil {
		q.cfg.Hooks.Delayed(key, max(d, 0))
	}
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
	return true
}

// addNow adds key without Config.Debounce.
func (q *Queue[K]) addNow(key K, priority int) {
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return
	}
	e := q.entryLocked(key, hash, group)
	q.raiseLocked(e, priority)
	w, added := q.makeReadyLocked(e)
	q.mu.Unlock()
	w.wake()
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
}

// Cancel takes back what was added: key is no longer ready, nothing is scheduled for it any more, and when it is in process
// it does not come back. It reports whether there was anything to take back. Work in process goes on; what is known of
// failures stays, and so does a key that is parked.
func (q *Queue[K]) Cancel(key K) bool {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil {
		q.mu.Unlock()
		return false
	}
	scheduled := e.isScheduled()
	cancelled := scheduled || e.dirty || e.state == ready
	if scheduled {
		q.clearDeadlinesLocked(e)
		q.rescheduleLocked(e)
	}
	if e.dirty {
		e.dirty = false
		q.dirty--
	}
	if e.state == ready {
		q.order.remove(e)
		q.enterLocked(e, resting)
	}
	q.restLocked(e)
	ended := q.endedLocked()
	idle := q.idleLocked()
	q.mu.Unlock()
	wakeAll(ended)
	announce(idle)
	return cancelled
}

// raiseLocked gives e a priority, unless its own is higher. An entry that is new has none yet.
func (q *Queue[K]) raiseLocked(e *entry[K], priority int) {
	fresh := e.state == resting && !e.isScheduled()
	if priority == e.priority || priority < e.priority && !fresh {
		return
	}
	q.gradeLocked()
	if e.state == ready {
		q.order.remove(e)
		q.pool.own(e).priority = priority
		q.order.push(e)
		return
	}
	q.pool.own(e).priority = priority
}

// gradeLocked makes the order one of priorities, from the first on. What is ready counts as ready since now, if nobody has
// noted since when it is.
func (q *Queue[K]) gradeLocked() {
	if q.order.graded() {
		return
	}
	if !q.cfg.Timestamps {
		now := q.now()
		for e := range q.order.plain.all() {
			q.pool.own(e).since = now
		}
	}
	q.order.grade()
}

// debounceLocked makes e wait for its Adds to become quiet.
func (q *Queue[K]) debounceLocked(e *entry[K]) {
	now := q.now()
	details := q.pool.own(e)
	if details.calmAt == 0 {
		q.calming++
		details.calmBy = later(now, q.cfg.DebounceLimit)
	}
	details.calmAt = min(later(now, q.cfg.Debounce), details.calmBy)
	q.rescheduleAtLocked(e, now)
}

// calmLocked ends the quiet time of e, if it has one.
func (q *Queue[K]) calmLocked(e *entry[K]) {
	if e.calmAt != 0 {
		e.calmAt, e.calmBy = 0, 0
		q.calming--
	}
}

// clearDeadlinesLocked ends all deadlines of e, which has one. The caller takes it off the schedule.
func (q *Queue[K]) clearDeadlinesLocked(e *entry[K]) {
	e.wakeAt = 0
	if e.retryAt != 0 {
		e.retryAt = 0
	}
	q.calmLocked(e)
}

// counts reports whether the new one of two wake-ups counts. An old one of 0 is none.
func (p Policy) counts(old, at int64) bool {
	return old == 0 || p == Replace || p == Earliest && at < old || p == Latest && at > old
}

// rescheduleAtLocked is rescheduleLocked for an entry that may begin to be delayed now.
func (q *Queue[K]) rescheduleAtLocked(e *entry[K], now int64) {
	if q.cfg.Timestamps && e.state == resting && !e.isScheduled() {
		q.pool.own(e).since = now
	}
	q.rescheduleLocked(e)
}

// rescheduleLocked gives e its place in the schedule, after its times have changed.
func (q *Queue[K]) rescheduleLocked(e *entry[K]) {
	due := e.due()
	if due == 0 {
		if e.isScheduled() {
			q.schedule.remove(e)
		}
		return
	}
	if q.schedule.set(e, due) {
		q.armLocked()
	}
}

// batch is how many keys the timer handles under one hold of the lock.
const batch = 256

// fire is run by the timer.
func (q *Queue[K]) fire() {
	for q.fireSome() {
		// The lock was free in between.
	}
}

// fireSome adds what is due, and lets those go that were remembered for long enough: a batch of each at most, so that nobody
// waits for the lock for long. It reports whether there is more. Until there is not, armedFor stays in the past, so that
// nobody sets the timer.
func (q *Queue[K]) fireSome() (more bool) {
	var wake []*waiter
	var added []K
	q.mu.Lock()
	now := q.now()
	for range batch {
		if q.schedule.n == 0 || q.schedule.first().due > now {
			break
		}
		e := q.pool.at(q.schedule.first().entry)
		if e.wakeAt <= now {
			e.wakeAt = 0
		}
		w, changed := q.makeReadyLocked(e) // which ends the other deadlines
		q.rescheduleLocked(e)
		if w != nil {
			wake = append(wake, w)
		}
		if changed && q.cfg.Hooks.Added != nil {
			added = append(added, e.key)
		}
	}
	forgotten := q.forgetOldLocked(now)
	if more = q.firstDueLocked() <= now; !more {
		q.armedFor = 0
		q.armLocked()
	}
	q.mu.Unlock()
	wakeAll(wake)
	q.tellAdded(added)
	for _, key := range forgotten {
		q.cfg.RateLimiter.Forget(key)
	}
	return more
}

// firstDueLocked returns when the timer is needed first, for what is scheduled or for what is remembered; the end of time if
// it is not needed.
func (q *Queue[K]) firstDueLocked() int64 {
	due := int64(math.MaxInt64)
	if q.shutdown {
		return due
	}
	if q.memory.n > 0 {
		due = later(q.memory.head().since, remember)
	}
	if q.schedule.n > 0 {
		due = min(due, q.schedule.first().due)
	}
	return due
}

// armLocked sets the timer to what is due first, unless it comes early enough: at worst it finds nothing due.
func (q *Queue[K]) armLocked() {
	due := q.firstDueLocked()
	if due == math.MaxInt64 || q.armedFor != 0 && q.armedFor <= due {
		return
	}
	q.armedFor = due
	d := time.Duration(due - q.now())
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.fire)
	} else {
		q.timer.Reset(d)
	}
}

// later returns the time that is d after t; one that cannot be told is as good as never.
func later(t int64, d time.Duration) int64 {
	if t += int64(d); t < 0 {
		return math.MaxInt64
	}
	return t
}
