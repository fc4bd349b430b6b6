package workqueue

import (
	"math"
	"time"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// batch is the number of keys that the timer, or a shutdown, handles under one hold of the lock.
const batch = 256

// fire runs when the timer fires.
func (q *Queue[K]) fire() {
	for q.fireSome() {
		// The lock is free between two batches.
	}
}

// fireSome makes a batch of due keys ready, and removes a batch of the keys that were remembered long enough. It reports whether there is
// more. While there is more, armedFor stays in the past, so that no other call sets the timer.
func (q *Queue[K]) fireSome() (more bool) {
	var wake []*waiters.Waiter
	var added []K
	q.mu.Lock()
	if q.shutdown {
		q.mu.Unlock()
		return false
	}
	now := q.now()
	for range batch {
		if q.schedule.Len() == 0 {
			break
		}
		e, due := q.schedule.First()
		if due > now {
			break
		}
		if e.WakeAt <= now {
			e.WakeAt = 0
		}
		w, changed := q.makeReadyLocked(e) // ends the other deadlines
		q.rescheduleLocked(e)
		if w != nil {
			wake = append(wake, w)
		}
		if changed && q.cfg.Hooks.Added != nil {
			added = append(added, e.Key)
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

// firstDueLocked returns the first time at which the timer must fire, or the end of time.
func (q *Queue[K]) firstDueLocked() int64 {
	due := int64(math.MaxInt64)
	if q.shutdown {
		return due
	}
	if q.memory.Len() > 0 {
		due = later(q.memory.Head().Since, remember)
	}
	if q.schedule.Len() > 0 {
		due = min(due, q.schedule.FirstDue())
	}
	return due
}

// armLocked sets the timer, unless it already fires early enough. At worst, the timer finds nothing due.
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

// debounceLocked starts the quiet time of e, or extends it.
func (q *Queue[K]) debounceLocked(e *entry.Entry[K]) {
	now := q.now()
	details := q.entries.Own(e)
	if details.QuietAt == 0 {
		q.quiet++
		details.QuietBy = later(now, q.cfg.DebounceLimit)
	}
	details.QuietAt = min(later(now, q.cfg.Debounce), details.QuietBy)
	q.rescheduleAtLocked(e, now)
}

// endQuietLocked ends the quiet time of e, if it has one. The caller reschedules e.
func (q *Queue[K]) endQuietLocked(e *entry.Entry[K]) {
	if e.QuietAt != 0 {
		e.QuietAt, e.QuietBy = 0, 0
		q.quiet--
	}
}

// clearDeadlinesLocked ends all deadlines of e.
func (q *Queue[K]) clearDeadlinesLocked(e *entry.Entry[K]) {
	e.WakeAt = 0
	if e.RetryAt != 0 {
		e.RetryAt = 0
	}
	q.endQuietLocked(e)
	q.rescheduleLocked(e)
}

// rescheduleAtLocked is rescheduleLocked for an entry that may become delayed now.
func (q *Queue[K]) rescheduleAtLocked(e *entry.Entry[K], now int64) {
	if q.cfg.Timestamps && e.State == entry.Resting && !e.IsScheduled() {
		q.entries.Own(e).Since = now
	}
	q.rescheduleLocked(e)
}

// rescheduleLocked gives e its place in the schedule after its deadlines have changed.
func (q *Queue[K]) rescheduleLocked(e *entry.Entry[K]) {
	if q.schedule.Update(e) {
		q.armLocked()
	}
}

// later returns the time that is d after t. A time that does not fit becomes the end of time.
func later(t int64, d time.Duration) int64 {
	if t += int64(d); t < 0 {
		return math.MaxInt64
	}
	return t
}
