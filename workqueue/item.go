package workqueue

import (
	"context"
	"time"
)

// Item is a key in the hand of a worker, and what the queue knows of it. [Queue.Take] gives one. It may be copied. Its
// methods are safe for concurrent use.
type Item[K comparable] struct {
	Key          K
	Attempt      int       // 1, and one more for each AddRateLimited since the key was last forgotten
	FirstFailure time.Time // of these attempts; zero if there was none
	Priority     int
	Reasons      []Reason // why it was added, the oldest first

	queue  *Queue[K]
	number uint64 // of the hand-out
}

// Take is [Queue.Next] that gives an [Item]: a handle whose Done can do no harm.
func (q *Queue[K]) Take(ctx context.Context) (Item[K], error) {
	var item Item[K]
	if _, err := q.nextUntil(ctx, &item); err != nil {
		return Item[K]{}, err
	}
	return item, nil
}

// TryTake is [Queue.Take] that does not wait: it answers false when no key may be handed out.
func (q *Queue[K]) TryTake() (item Item[K], ok bool) {
	q.mu.Lock()
	e := q.takeLocked()
	if e == nil {
		q.mu.Unlock()
		return item, false
	}
	q.noteLocked(&item, e)
	q.handOut(e)
	return item, true
}

// Done says that the work on the item has ended. Only the first call does anything, and it does nothing to a later hand-out
// of the same key.
func (i Item[K]) Done() {
	q := i.queue
	q.mu.Lock()
	e := q.handedOutLocked(i.Key)
	if e == nil || e.state != processing || e.number != i.number {
		q.mu.Unlock()
		return
	}
	q.done(e)
}

// noteLocked fills in the item of e, which was taken.
func (q *Queue[K]) noteLocked(item *Item[K], e *entry[K]) {
	*item = Item[K]{
		Key: e.key, Attempt: int(e.failures) + 1, FirstFailure: q.time(e.failedAt), Priority: e.priority, Reasons: e.reasons.list(),
		queue: q, number: e.number,
	}
}
