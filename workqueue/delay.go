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

	// RateLimited says that an attempt has failed, as AddRateLimited does. The key waits for as long as After or At say, as
	// when what has failed told when to try again; if they are not set, Config.RateLimiter is asked. All else is the
	// same: it is a backoff, and the key is parked if that was the last attempt that it gets.
	RateLimited bool

	// Policy says what becomes of a wake-up that is scheduled already, when the key is not to be added at once.
	Policy Policy

	// Priority is the priority of the key: what is higher is handed out first. It is kept until the queue has nothing
	// more to do with the key, and only ever raised: of two priorities the higher counts. The other ways to add
	// have priority 0. A key that is added for later keeps the priority that it has, if Priority is 0. A hand-out takes time
	// for each priority in use: a few are as good as one.
	Priority int

	// Reason says why, for people: it is shown by Snapshot and in an Item. The queue keeps the last 8 of a key.
	Reason string
}

// Policy says which of two wake-ups of a key counts.
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

// AddAfter adds key when d has passed; at once if d is not positive. Of several wake-ups of one key the earliest counts
// and the others are dropped. An Add in the meantime does not drop the wake-up: it is a fact of its own about the key.
// After a shutdown AddAfter does nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	q.addAfter(key, d, true, AddOptions{})
}

// addAfter adds key, and reports whether it did. What is delayed is told to the hook for that, even if the delay is nothing.
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
	if d > 0 {
		if opts.Priority != 0 {
			q.raiseLocked(e, opts.Priority)
		}
		q.wakeUpByLocked(e, d, false, opts.Policy)
	} else {
		q.raiseLocked(e, opts.Priority)
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
		e.wakeAt, e.backoff = 0, false
		e.calm()
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
		details.calmBy = later(now, q.cfg.DebounceLimit)
	}
	details.calmAt = min(later(now, q.cfg.Debounce), details.calmBy)
	q.rescheduleAtLocked(e, now)
}

// wakeUpByLocked schedules e, unless what is scheduled already counts.
func (q *Queue[K]) wakeUpByLocked(e *entry[K], d time.Duration, backoff bool, policy Policy) {
	now := q.now()
	at := later(now, d)
	if old := e.wakeAt; old != 0 && (policy == Earliest && old <= at || policy == Latest && old >= at) {
		return
	}
	e.wakeAt, e.backoff = at, backoff
	q.rescheduleAtLocked(e, now)
}

// rescheduleAtLocked is rescheduleLocked for an entry that may begin to be delayed now.
func (q *Queue[K]) rescheduleAtLocked(e *entry[K], now int64) {
	if q.cfg.Timestamps && e.state == resting && !e.isScheduled() {
		q.pool.own(e).since = now
	}
	q.rescheduleLocked(e)
}

// wakeUpLocked schedules e, for never if at is 0.
func (q *Queue[K]) wakeUpLocked(e *entry[K], at int64, backoff bool) {
	e.wakeAt, e.backoff = at, backoff
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

// fire is run by the timer. It adds what is due, and lets those go that were remembered for long enough.
func (q *Queue[K]) fire() {
	var wake []*waiter
	var added []K
	q.mu.Lock()
	q.armedFor = 0
	now := q.now()
	for q.schedule.n > 0 && q.schedule.first().due <= now {
		e := q.pool.at(q.schedule.first().entry)
		if e.wakeAt != 0 && e.wakeAt <= now {
			e.wakeAt, e.backoff = 0, false
		}
		e.calm() // it is due, or what it waits for is
		q.rescheduleLocked(e)
		w, changed := q.makeReadyLocked(e)
		if w != nil {
			wake = append(wake, w)
		}
		if changed && q.cfg.Hooks.Added != nil {
			added = append(added, e.key)
		}
	}
	q.forgetOldLocked(now)
	q.armLocked()
	q.mu.Unlock()
	wakeAll(wake)
	q.tellAdded(added)
}

// armLocked sets the timer to what is due first, of what is scheduled and what is remembered, unless it comes early enough:
// at worst it finds nothing due.
func (q *Queue[K]) armLocked() {
	due := int64(math.MaxInt64)
	if q.memory.n > 0 {
		due = later(q.memory.head().since, remember)
	}
	if q.schedule.n > 0 {
		due = min(due, q.schedule.first().due)
	}
	if due == math.MaxInt64 || q.shutdown || q.armedFor != 0 && q.armedFor <= due {
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
