package workqueue

import (
	"context"
	"sync"
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

// Run works with as many workers as given: each takes an item, calls work, and does what follows from its error. After nil
// the key is forgotten; after an error it is added again with a backoff, or parked. Run returns when the workers have
// ended, which they do after ctx, or when the queue is shut down and drained; always with nil. The context of work is ctx.
// Run panics if workers is not positive. A panic of work is not captured.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(ctx context.Context, item Item[K]) error) error {
	if workers <= 0 {
		panic("workqueue: Run: the number of workers is not positive")
	}
	var wg sync.WaitGroup
	for range workers {
		// A worker. It ends with ctx, or with the queue; Run waits for it.
		wg.Go(func() {
			for {
				item, err := q.Take(ctx)
				if err != nil {
					return
				}
				q.runOne(ctx, item, work)
			}
		})
	}
	wg.Wait()
	return nil
}

func (q *Queue[K]) runOne(ctx context.Context, item Item[K], work func(context.Context, Item[K]) error) {
	defer item.Done()
	if err := work(ctx, item); err != nil {
		q.AddWith(item.Key, AddOptions{RateLimited: true, Reason: err.Error()})
		return
	}
	q.Forget(item.Key)
}

// noteLocked fills in the item of e, which was taken.
func (q *Queue[K]) noteLocked(item *Item[K], e *entry[K]) {
	*item = Item[K]{
		Key: e.key, Attempt: int(e.failures) + 1, FirstFailure: q.time(e.failedAt), Priority: e.priority, Reasons: e.reasons.list(),
		queue: q, number: e.number,
	}
}
