package workqueue

import (
	"time"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// AddOptions says how [Queue.AddWith] adds a key. The zero value is Add.
type AddOptions struct {
	// After delays the addition. A negative delay means now. At most one of After and At may be set.
	After time.Duration

	// At is the time of the addition. A time in the past means now.
	At time.Time

	// RateLimited reports a failed attempt, as AddRateLimited does. After or At then sets the backoff, for example because the service that
	// failed said when to try again. If neither is set, Config.RateLimiter computes the delay. The failure counts either way, and parks the
	// key if it was the last attempt.
	RateLimited bool

	// Final reports a failed attempt that must not be retried: the key is parked, as if the failure had spent its budget. RateLimited,
	// After, and At then make no difference.
	Final bool

	// Policy chooses between two wake-ups of a key, or between two backoffs with RateLimited.
	Policy Policy

	// Priority is the priority of the key. Keys of higher priority leave first. A key keeps its priority until it leaves the queue for
	// good, and the priority only rises: the higher of two counts. Add and the other methods have priority 0. A key that is added with a
	// delay keeps its priority if Priority is 0. A ready key whose priority rises moves to the place it would have if it had become ready
	// with that priority. The cost of a dispatch grows with the number of priorities in use, so use few.
	Priority int

	// Reason tells people why the key was added. Snapshot and Item show it. The queue keeps the last 8 reasons of a key.
	Reason string
}

// Policy chooses between two wake-ups of a key, or between two backoffs.
type Policy int

const (
	Earliest Policy = iota // the earlier of the two
	Latest                 // the later of the two
	Replace                // the new one
)

// counts reports whether the new deadline counts. An old one of 0 is none.
func (p Policy) counts(old, at int64) bool {
	return old == 0 || p == Replace || p == Earliest && at < old || p == Latest && at > old
}

// Add makes key ready. A ready key stays where it is in line. A key in process becomes ready again when it is done. A parked key is
// revived with a whole budget. With Config.Debounce, Add takes effect when the quiet time of the key ends. After a shutdown, Add does
// nothing. Add panics if key is not equal to itself (a NaN) or not comparable (an interface that holds a slice). The queue could never
// find such a key again.
func (q *Queue[K]) Add(key K) {
	checkKey(key)
	hash, group := q.entries.Hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return
	}
	e := q.entryLocked(key, hash, group)
	if e.State == entry.Ready && e.Priority >= 0 { // the most common case needs no more than this
		q.mu.Unlock()
		return
	}
	if e.Priority < 0 {
		q.raiseLocked(e, 0)
	}
	w, added := q.addLocked(e)
	q.mu.Unlock()
	wake(w)
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
}

// AddAfter adds key after d. If d is not positive, AddAfter adds it at once, without Config.Debounce. If key already has a wake-up, the
// earlier of the two counts. An Add, an attempt, or a backoff in the meantime does not drop the wake-up. After a shutdown, AddAfter does
// nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	q.add(key, d, delayed, AddOptions{})
}

// AddWith adds key according to opts. It is the general form of Add, AddAfter, and AddRateLimited. It returns false if it does not ask for
// an attempt: after a shutdown, for a failure that spends the budget of key, and for a failure of a parked key. Otherwise it returns true,
// even if key comes back earlier for another reason. It panics if both After and At are set, or if Policy is unknown.
func (q *Queue[K]) AddWith(key K, opts AddOptions) bool {
	d, how := opts.After, debounced
	if d != 0 {
		how = delayed
	}
	switch {
	case opts.Policy < Earliest || opts.Policy > Replace:
		panic("workqueue: AddWith: there is no such Policy")
	case d != 0 && !opts.At.IsZero():
		panic("workqueue: AddWith: only one of After and At can be set")
	case !opts.At.IsZero():
		d, how = time.Until(opts.At), delayed
	}
	if opts.RateLimited || opts.Final {
		return q.fail(key, d, how == delayed, opts)
	}
	return q.add(key, d, how, opts)
}

// addition is a kind of addition.
type addition int

const (
	debounced addition = iota // takes effect when the quiet time of the key ends
	delayed                   // has a delay, perhaps of zero, and is reported to Hooks.Delayed
	immediate                 // takes effect at once
)

// add adds key after d, and reports whether it did.
func (q *Queue[K]) add(key K, d time.Duration, how addition, opts AddOptions) bool {
	checkKey(key)
	hash, group := q.entries.Hash(key), q.groupOf(key)
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	e := q.entryLocked(key, hash, group)
	q.noteReasonLocked(e, opts.Reason)
	if d <= 0 || opts.Priority != 0 {
		q.raiseLocked(e, opts.Priority)
	}
	var w *waiters.Waiter
	added := false
	switch {
	case d > 0:
		now := q.now()
		if at := later(now, d); opts.Policy.counts(e.WakeAt, at) {
			e.WakeAt = at
			q.rescheduleAtLocked(e, now)
		}
	case how == debounced:
		w, added = q.addLocked(e)
	default:
		w, added = q.makeReadyLocked(e)
	}
	if how == delayed {
		q.delayed++
	}
	q.mu.Unlock()
	wake(w)
	if how == delayed && q.cfg.Hooks.Delayed != nil {
		q.cfg.Hooks.Delayed(key, max(d, 0))
	}
	if added && q.cfg.Hooks.Added != nil {
		q.cfg.Hooks.Added(key)
	}
	return true
}

// addLocked makes e ready, or starts its quiet time. It returns the worker to wake, if any, and whether e became ready or dirty.
func (q *Queue[K]) addLocked(e *entry.Entry[K]) (w *waiters.Waiter, added bool) {
	if q.cfg.Debounce > 0 && e.State != entry.Ready && !e.Dirty {
		q.debounceLocked(e)
		return nil, false
	}
	return q.makeReadyLocked(e)
}

// Cancel undoes every addition of key: key is no longer ready, loses its deadlines, and does not come back when it is done. It reports
// whether there was anything to undo. Work in process continues. The count of failures stays, and a parked key stays parked.
func (q *Queue[K]) Cancel(key K) bool {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.Get(key)
	if e == nil {
		q.mu.Unlock()
		return false
	}
	canceled := e.IsScheduled() || e.Dirty || e.State == entry.Ready
	q.clearDeadlinesLocked(e)
	if e.Dirty {
		e.Dirty = false
		q.dirty--
	}
	if e.State == entry.Ready {
		q.line.Remove(e)
		q.enterLocked(e, entry.Resting)
	}
	q.restLocked(e)
	ended := q.endedLocked()
	idle := q.idleLocked()
	q.mu.Unlock()
	wakeAll(ended)
	announce(idle)
	return canceled
}

// raiseLocked gives e a priority, unless its own is higher. A new entry has none.
func (q *Queue[K]) raiseLocked(e *entry.Entry[K], priority int) {
	fresh := e.State == entry.Resting && !e.IsScheduled()
	if priority == e.Priority || priority < e.Priority && !fresh {
		return
	}
	q.gradeLocked()
	q.line.Raise(e, priority)
}

// gradeLocked sorts the line by priority, starting with the first use of a priority. Without Timestamps, the keys in line count as ready
// since now.
func (q *Queue[K]) gradeLocked() {
	if q.line.Graded() {
		return
	}
	var since int64
	if !q.cfg.Timestamps {
		since = q.now()
	}
	q.line.Grade(since)
}

// Reason is why a key was added, and when.
type Reason struct {
	Text string
	At   time.Time
}

// String returns the text of r and its time, as in "a page was edited, at 15:04:05".
func (r Reason) String() string { return r.Text + ", at " + r.At.Format(time.TimeOnly) }

// noteReasonLocked records why e is added, if there is a reason.
func (q *Queue[K]) noteReasonLocked(e *entry.Entry[K], text string) {
	if text == "" {
		return
	}
	if e.Reasons == nil {
		q.entries.Own(e).Reasons = new(entry.Reasons)
	}
	e.Reasons.Add(text, time.Now())
}

// reasonsOf returns the reasons of e, the oldest first.
func reasonsOf[K comparable](e *entry.Entry[K]) []Reason {
	n := e.Reasons.Len()
	if n == 0 {
		return nil
	}
	list := make([]Reason, n)
	for i := range list {
		list[i] = Reason(e.Reasons.At(i))
	}
	return list
}
