package workqueue

import (
	"math"
	"time"
)

// AddAfter adds key when d has passed; at once if d is not positive. Of several wake-ups of one key the earliest counts
// and the others are dropped. An Add in the meantime does not drop the wake-up: it is a fact of its own about the key.
// After a shutdown AddAfter does nothing.
func (q *Queue[K]) AddAfter(key K, d time.Duration) {
	q.addAfter(key, d, false)
}

// AddRateLimited adds key after the delay that the rate limiter gives it, which grows with each call until Forget. This
// wake-up is a backoff: when the key is handed out before, because it was added meanwhile, that attempt takes its place.
func (q *Queue[K]) AddRateLimited(key K) {
	checkKey(key)
	q.addAfter(key, q.limiter.When(key), true)
}

// Forget tells the rate limiter that key is done with, so that its next backoff starts small again. Neither the key's
// place in line nor its wake-up changes.
func (q *Queue[K]) Forget(key K) {
	checkKey(key)
	q.limiter.Forget(key)
}

// NumRequeues returns how often key was added by AddRateLimited since it was last forgotten.
func (q *Queue[K]) NumRequeues(key K) int {
	checkKey(key)
	return q.limiter.NumRequeues(key)
}

func (q *Queue[K]) addAfter(key K, d time.Duration, backoff bool) {
	if d <= 0 {
		q.Add(key)
		return
	}
	checkKey(key)
	now := q.now()
	due := now + int64(d)
	if due < now { // overflow: as good as never
		due = math.MaxInt64
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutdown {
		return
	}
	e := q.entryLocked(key)
	if e.slot >= 0 && q.delayed.due(e) <= due {
		return
	}
	e.backoff = backoff
	q.delayed.set(e, due)
	if e.slot == 0 {
		q.armLocked(now)
	}
}

// fire is run by the timer. It makes ready what is due.
func (q *Queue[K]) fire() {
	now := q.now()
	var wake []*waiter
	q.mu.Lock()
	for q.delayed.len() > 0 && q.delayed.first().due <= now {
		e := q.delayed.first().e
		q.unscheduleLocked(e)
		if w := q.makeReadyLocked(e); w != nil {
			wake = append(wake, w)
		}
	}
	if q.delayed.len() > 0 {
		q.armLocked(now)
	}
	q.mu.Unlock()
	for _, w := range wake {
		w.wake()
	}
}

// armLocked sets the timer to the earliest wake-up.
func (q *Queue[K]) armLocked(now int64) {
	d := time.Duration(q.delayed.first().due - now)
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.fire)
	} else {
		q.timer.Reset(d)
	}
}

// unscheduleLocked drops the wake-up of e. The timer stays: at worst it finds nothing due.
func (q *Queue[K]) unscheduleLocked(e *entry[K]) {
	q.delayed.remove(e)
	e.backoff = false
}

// now returns the time since the queue was made, on the monotonic clock, in nanoseconds.
func (q *Queue[K]) now() int64 { return int64(time.Since(q.start)) }
