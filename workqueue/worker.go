package workqueue

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/workqueue/internal/entry"
	"github.com/setpoint-go/setpoint/workqueue/internal/waiters"
)

// Item is a key that was dispatched to a worker, with what the queue knows about it. It may be copied. Its methods are safe for
// concurrent use.
type Item[K comparable] struct {
	Key          K
	Attempt      int       // 1 plus the number of failures since the key was last forgotten
	FirstFailure time.Time // the first of these failures; zero if there is none
	Priority     int
	Reasons      []Reason // why the key was added, the oldest first

	queue  *Queue[K]
	number uint64 // of the dispatch
}

// Take waits for a ready key and dispatches it to the caller: no other worker gets it until [Item.Done].
//
// If ctx has ended or ends during the call, Take takes no key and returns the cause of ctx. That holds even if a key is ready or the queue
// is shut down. Otherwise, Take returns a key as soon as one may be dispatched. It returns [ErrShutDown] when the queue is shut down and
// no key can become ready anymore. So after a shutdown Take waits while a key is dirty, because the Done of that key makes it ready. A
// goroutine that must call this Done itself would deadlock in Take: it calls [Queue.TryTake].
func (q *Queue[K]) Take(ctx context.Context) (Item[K], error) {
	if ctx.Err() != nil {
		return Item[K]{}, context.Cause(ctx)
	}
	var item Item[K]
	switch _, r := q.wait(ctx.Done(), &item, true); r {
	case gotKey:
		return item, nil
	case gotShutdown:
		return Item[K]{}, ErrShutDown
	default:
		return Item[K]{}, context.Cause(ctx)
	}
}

// TryTake is [Queue.Take] without the wait. It returns false if no key may be dispatched now.
func (q *Queue[K]) TryTake() (item Item[K], ok bool) {
	q.mu.Lock()
	e := q.takeLocked()
	if e == nil {
		q.mu.Unlock()
		return item, false
	}
	q.dispatch(e, &item)
	return item, true
}

// TryTakeKey is [Queue.TryTake] for a key that the caller chooses, out of turn. It returns false if the key is not ready or may not be
// dispatched now. It is for tests and simulations that decide the order of events. [Queue.Ready] lists the keys.
func (q *Queue[K]) TryTakeKey(key K) (item Item[K], ok bool) {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.Get(key)
	if e == nil || e.State != entry.Ready || !q.line.MayStart(e) || !q.mayDispatchLocked() {
		q.mu.Unlock()
		return item, false
	}
	q.line.Remove(e)
	q.takenLocked(e)
	q.dispatch(e, &item)
	return item, true
}

// Get waits for a ready key and dispatches it to the caller: no other worker gets it until Done. After a shutdown, Get returns the keys
// that are still ready, and then true for shutdown. As in client-go, it does so even if a key is dirty. A dirty key becomes ready with its
// Done, and the worker that has it must then call Get again. If other goroutines do the work, use [Queue.Take].
func (q *Queue[K]) Get() (key K, shutdown bool) {
	key, result := q.wait(nil, nil, false)
	return key, result != gotKey
}

// result says how a wait ended.
type result int

const (
	gotKey result = iota
	gotShutdown
	gotCanceled
)

// wait waits until a key may be dispatched, the queue is over, or done is closed. With dirtyToo, the queue is over only when no key is
// dirty. wait fills in item, unless item is nil.
func (q *Queue[K]) wait(done <-chan struct{}, item *Item[K], dirtyToo bool) (key K, r result) {
	q.mu.Lock()
	for {
		select {
		case <-done: // it may have been closed while this worker slept or waited for the lock
			other := q.waiterToWakeLocked() // instead of this one, if it was woken
			q.mu.Unlock()
			wake(other)
			return key, gotCanceled
		default:
		}
		if e := q.takeLocked(); e != nil {
			return q.dispatch(e, item), gotKey
		}
		if q.isOverLocked() && !(dirtyToo && q.dirty > 0) {
			q.mu.Unlock()
			return key, gotShutdown
		}
		w := q.waiters.Add()
		q.mu.Unlock()

		canceled := false
		if done == nil {
			<-w.Signal
		} else {
			select {
			case <-w.Signal:
			case <-done:
				canceled = true
			}
		}

		q.mu.Lock()
		switch {
		case !canceled:
			q.waiters.Reuse(w)
		case w.Listed():
			q.waiters.Remove(w)
			q.waiters.Reuse(w)
		default:
			// The waiter was woken as well. The value may not have been sent yet, so the waiter is not reused.
		}
	}
}

// Done reports that the work on the item has ended. Only the first call has an effect, and it never affects a later dispatch of the same
// key.
func (i Item[K]) Done() {
	q := i.queue
	q.mu.Lock()
	e := q.dispatchedLocked(i.Key)
	if e == nil || e.State != entry.Processing || e.Number != i.number {
		q.mu.Unlock()
		return
	}
	q.done(e)
}

// Done reports that the work on key has ended. If key was added in the meantime, it becomes ready again, at the end of the line. Done of a
// key that is not in process is a bug in the worker loop: it changes nothing, and is reported to Hooks.StrayDone.
func (q *Queue[K]) Done(key K) {
	checkKey(key)
	q.mu.Lock()
	e := q.dispatchedLocked(key)
	if e != nil && e.State == entry.Processing {
		q.done(e)
		return
	}
	q.mu.Unlock()
	if q.cfg.Hooks.StrayDone != nil {
		q.cfg.Hooks.StrayDone(key)
		return
	}
	q.cfg.Logger.Error("workqueue: Done of a key that is not in process", "queue", q.cfg.Name, "key", key)
}

// dispatchedLocked returns the entry of key. If key was not dispatched, the entry is nil or in another state.
func (q *Queue[K]) dispatchedLocked(key K) *entry.Entry[K] {
	if e := q.last; e != nil && e.Key == key {
		return e
	}
	return q.entries.Get(key)
}

// takeLocked takes the next entry out of its line, or returns nil if none may be dispatched. The caller calls dispatch next.
func (q *Queue[K]) takeLocked() *entry.Entry[K] {
	if !q.mayDispatchLocked() {
		return nil
	}
	e := q.line.Pop()
	if e != nil {
		q.takenLocked(e)
	}
	return e
}

// takenLocked records that e was taken out of its line.
func (q *Queue[K]) takenLocked(e *entry.Entry[K]) {
	q.line.Begin(e)
	q.enterLocked(e, entry.Processing)
	q.inProcess++
	q.last = e
}

// dispatch completes the dispatch of e, which was taken: it fills in item, unless item is nil, releases the lock, and calls the hook. It
// returns the key of e.
func (q *Queue[K]) dispatch(e *entry.Entry[K], item *Item[K]) K {
	key := e.Key
	if item != nil {
		*item = Item[K]{
			Key: key, Attempt: int(e.Failures) + 1, FirstFailure: q.time(e.FailedAt), Priority: e.Priority, Reasons: reasonsOf(e),
			queue: q, number: e.Number,
		}
	}
	var waited int64
	if q.cfg.Timestamps {
		now := q.now()
		waited, e.Since = now-e.Since, now
		q.waited.add(time.Duration(waited))
		q.busy.Push(e)
	}
	var w *waiters.Waiter
	if q.cfg.DispatchLimit != nil {
		w = q.waiterToWakeLocked() // another worker, to wait for the limit
	}
	ended := q.endedLocked()
	q.mu.Unlock()
	wake(w)
	wakeAll(ended)
	if q.cfg.Hooks.Dispatched != nil {
		q.cfg.Hooks.Dispatched(key, time.Duration(waited))
	}
	return key
}

// done ends the work on e and releases the lock.
func (q *Queue[K]) done(e *entry.Entry[K]) {
	key := e.Key
	var took int64
	if q.cfg.Timestamps {
		now := q.now()
		took, e.Since = now-e.Since, now
		q.worked.add(time.Duration(took))
		q.busy.Remove(e)
	}
	q.inProcess--
	if q.last == e {
		q.last = nil
	}
	freed := q.line.End(e)
	parkedAfter := 0
	var w, other *waiters.Waiter
	q.enterLocked(e, entry.Resting)
	switch {
	case e.Dirty:
		e.Dirty = false
		q.dirty--
		if e.Spent {
			q.reviveLocked(e)
		}
		q.lineUpLocked(e)
		w = q.waiterToWakeLocked()
	case e.Spent:
		parkedAfter = int(e.Failures)
		q.parkLocked(e)
	default:
		q.restLocked(e)
	}
	if freed {
		other = q.waiterToWakeLocked()
	}
	idle := q.idleLocked()
	q.mu.Unlock()
	wake(w)
	wake(other)
	announce(idle)
	if q.cfg.Hooks.Done != nil {
		q.cfg.Hooks.Done(key, time.Duration(took))
	}
	if parkedAfter > 0 && q.cfg.Hooks.Parked != nil {
		q.cfg.Hooks.Parked(key, parkedAfter)
	}
}

// mayDispatchLocked reports whether the limit allows a dispatch, if a key may be dispatched. If not, it makes sure that a worker wakes up
// in time.
func (q *Queue[K]) mayDispatchLocked() bool {
	return q.rate == nil || q.line.Available() && q.rate.Allow(time.Now())
}

// dispatchAllowed runs when the limit allows a dispatch again.
func (q *Queue[K]) dispatchAllowed() {
	q.mu.Lock()
	w := q.waiterToWakeLocked()
	q.mu.Unlock()
	wake(w)
}

// errGoexit is the failure of work that called runtime.Goexit.
var errGoexit = errors.New("work called runtime.Goexit")

// Run starts the given number of workers. Each takes an item, calls work with ctx, and calls Done. Before the Done, it
//
//   - calls Forget if work returned nil;
//   - adds the key again without counting a failure, if ctx has ended and work returned an error that wraps its cause or its Err. This
//     is a graceful stop: the key keeps its count and its priority, is not debounced, and is ready for the next Run. After a shutdown it is
//     not added;
//   - counts and logs a failure if work returned any other error, with its text as the reason. The key comes back after a
//     backoff, or is parked;
//   - counts a failure in the same way if work called runtime.Goexit, and starts another worker.
//
// When ctx has ended, or Take would return [ErrShutDown], Run waits for the calls of work that have not ended, and returns nil.
// Run does not recover a panic of work: the process ends. It panics if workers is not positive or work is nil.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(ctx context.Context, item Item[K]) error) error {
	if workers <= 0 {
		panic("workqueue: Run: the number of workers is not positive")
	}
	if work == nil {
		panic("workqueue: Run: work is nil")
	}
	var running sync.WaitGroup
	var worker func()
	worker = func() {
		for {
			item, err := q.Take(ctx)
			if err != nil {
				return
			}
			// A Goexit cannot be stopped. Another worker replaces this one.
			q.runOne(ctx, item, work, func() { running.Go(worker) })
		}
	}
	for range workers {
		// A worker. It ends when ctx ends or the queue is over; Run waits for it.
		running.Go(worker)
	}
	running.Wait()
	return nil
}

// runOne works on item. If work ends the goroutine, it calls replace after the Done.
func (q *Queue[K]) runOne(ctx context.Context, item Item[K], work func(context.Context, Item[K]) error, replace func()) {
	returned, exits := false, false
	defer func() {
		if exits {
			replace()
		}
	}()
	defer item.Done()
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			panic(v) // recover was needed only to distinguish a panic from a Goexit
		}
		exits = true
		q.failed(ctx, item, errGoexit)
	}()
	err := work(ctx, item)
	returned = true
	switch {
	case err == nil:
		q.Forget(item.Key)
	case ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err())):
		q.add(item.Key, 0, immediate, AddOptions{Priority: item.Priority})
	default:
		q.failed(ctx, item, err)
	}
}

// failed counts and logs a failure.
func (q *Queue[K]) failed(ctx context.Context, item Item[K], err error) {
	level, message := slog.LevelWarn, "workqueue: work failed"
	if !q.AddWith(item.Key, AddOptions{RateLimited: true, Reason: err.Error()}) {
		level, message = slog.LevelError, "workqueue: work failed, not retried"
	}
	q.cfg.Logger.LogAttrs(ctx, level, message,
		slog.String("queue", q.cfg.Name), slog.Any("key", item.Key), slog.Int("attempt", item.Attempt), slog.Any("error", err))
}
