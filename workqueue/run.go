package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
)

// Run starts the given number of workers. Each takes an item, calls work with ctx, and calls Done. Before the Done, it applies the result of
// work. An error means the same as in a controller, and package retry makes such errors:
//
//	work                                 the key is processed again         failures  logged
//	----                                 --------------------------         --------  ------
//	returns nil                          when it is added                   0         -
//	returns an error of retry.NotYet     after its delay, if positive       stay      Debug
//	returns a conflict                   after 5 ms, 10 ms, 20 ms ...       stay      Debug
//	returns another error                after the backoff                  +1        Warn
//	returns an error with a delay d      after d                            +1        Warn
//	panics, or calls runtime.Goexit      after the backoff                  +1        Error, with the stack of a panic
//	one of these three, budget spent     when it is added: it is parked     0         Error
//	is unfinished for MaxElapsed         when it is added: it is parked     0         Error
//	returns an error of retry.Permanent  when it is added: it is parked     0         Error
//	returns an error after a stop        by the next Run, at once           stay      Info
//	returns an error of a fenced write   by the next Run, at once           stay      Warn
//
// The first of these that applies to an error decides: ctx has ended; a write was fenced; the error is permanent; it is unfinished; it is a
// conflict. The outcome table of package controller says what each of these is, and applies to a queue too, except for the rows about a
// Result, a timeout, and a newer event, which a queue does not have. The text of an error is the reason for the next attempt.
//
// After a stop, the key keeps its priority and is not debounced. After a shutdown, a key is not added again.
//
// There are two ways to stop. The end of ctx finishes only what is in flight: waiting keys stay in the queue, for the next Run. With
// [Queue.Drain] or [Queue.ShutDown], Run also processes all keys that are ready. In a rolling deployment, use the first for keys that the
// next process lists again, and the second for keys that nothing brings back.
//
// When ctx has ended, or Take would return [ErrShutDown], Run waits for the calls of work that have not ended, and returns nil. Run panics if
// workers is not positive or work is nil.
func (q *Queue[K]) Run(ctx context.Context, workers int, work func(ctx context.Context, item Item[K]) error) error {
	if workers <= 0 {
		panic("workqueue: Run: the number of workers is not positive")
	}
	if work == nil {
		panic("workqueue: Run: work is nil")
	}
	r := &run[K]{q: q, ctx: ctx, work: work}
	for range workers {
		// A worker. It ends when ctx ends or the queue is over; Run waits for it.
		r.workers.Go(r.worker)
	}
	r.workers.Wait()
	for _, item := range r.fenced {
		q.add(item.Key, 0, immediate, AddOptions{Priority: item.Priority})
	}
	return nil
}

// run is one call of Run.
type run[K comparable] struct {
	q       *Queue[K]
	ctx     context.Context
	work    func(context.Context, Item[K]) error
	workers sync.WaitGroup

	mu sync.Mutex
	// mu guards the following.
	fenced []Item[K] // for the next Run; a key may be there twice
}

// worker processes items until ctx ends or the queue is over. A Goexit of work, or of a hook, cannot be stopped: then another worker
// replaces this one.
func (r *run[K]) worker() {
	var item Item[K] // dispatched, and its result not applied
	over := false
	defer func() {
		if over {
			return
		}
		defer r.workers.Go(r.worker)
		if item.queue != nil {
			defer item.Done()
			r.q.failed(r.ctx, item, ending{err: errGoexit, text: errGoexit.Error()})
		}
	}()
	for r.ctx.Err() == nil {
		if _, got := r.q.wait(r.ctx.Done(), &item, true); got != gotKey {
			break
		}
		r.process(&item)
	}
	over = true
}

// process works on item, applies the result, and clears item in between.
func (r *run[K]) process(item *Item[K]) {
	end := r.call(*item)
	taken := *item
	*item = Item[K]{}
	defer taken.Done() // even after a Goexit of a hook
	r.apply(taken, end)
}

// errGoexit is the failure of work that called runtime.Goexit.
var errGoexit = errors.New("work called runtime.Goexit")

// panicError is the failure of work that panicked.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// ending is how work has ended.
type ending struct {
	kind  outcome.Kind
	err   error // nil after a success
	text  string
	delay time.Duration // that err requests; not positive if it requests none
	stack []byte        // of a panic
}

// isPanic reports whether work did not return.
func (e ending) isPanic() bool { return e.stack != nil || e.err == errGoexit }

// call calls work and classifies its result. It recovers a panic, even one in a method of the returned error.
func (r *run[K]) call(item Item[K]) (end ending) {
	defer func() {
		if v := recover(); v != nil {
			p := &panicError{v, debug.Stack()}
			end = ending{err: p, text: p.Error(), stack: p.stack}
		}
	}()
	err := r.work(r.ctx, item)
	if err == nil {
		return ending{}
	}
	end = ending{err: err, text: err.Error(), kind: outcome.Of(err, r.ctx.Err() != nil, r.q.tooManyConflicts(item.Key))}
	end.delay, _ = outcome.Delay(err)
	return end
}

// apply applies the result of work on item.
func (r *run[K]) apply(item Item[K], end ending) {
	q := r.q
	level, message := slog.LevelDebug, "work is not finished"
	switch {
	case end.err == nil:
		q.Forget(item.Key)
		return
	case end.kind == outcome.Stopped:
		q.add(item.Key, 0, immediate, AddOptions{Priority: item.Priority})
		level, message = slog.LevelInfo, "work stopped, left to the next run"
	case end.kind == outcome.Fenced:
		r.mu.Lock()
		r.fenced = append(r.fenced, item)
		r.mu.Unlock()
		level, message = slog.LevelWarn, "work was fenced, left to the next run"
	case end.kind.Unfinished() && q.resume(item.Key, end):
	default:
		q.failed(r.ctx, item, end)
		return
	}
	q.log(r.ctx, level, message, item, end)
}

// failed applies and logs a failure, or an end that parks the key.
func (q *Queue[K]) failed(ctx context.Context, item Item[K], end ending) {
	level, message := slog.LevelWarn, "work failed"
	if end.isPanic() {
		level, message = slog.LevelError, "work panicked"
	}
	final := end.kind != outcome.Failed // permanent, or unfinished for too long
	retried := false
	if final {
		q.Park(item.Key, end.text)
	} else {
		q.endUnfinished(item.Key, end)
		retried = q.AddWith(item.Key, AddOptions{RateLimited: true, Reason: end.text, After: end.delay})
	}
	if !retried {
		level, message = slog.LevelError, message+", not retried"
	}
	q.log(ctx, level, message, item, end)
}

// log logs the end of an attempt, since no caller receives its error.
func (q *Queue[K]) log(ctx context.Context, level slog.Level, message string, item Item[K], end ending) {
	attrs := []slog.Attr{
		slog.String("queue", q.cfg.Name), slog.Any("key", item.Key), slog.Int("attempt", item.Attempt), slog.Any("error", end.err),
	}
	if end.stack != nil {
		attrs = append(attrs, slog.String("stack", string(end.stack)))
	}
	q.cfg.Logger.LogAttrs(ctx, level, message, attrs...)
}

// tooManyConflicts reports whether a conflict of key is a failure now.
func (q *Queue[K]) tooManyConflicts(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries.get(key)
	return e != nil && e.unfinished != nil && e.unfinished.TooManyConflicts()
}

// endUnfinished ends the row of conflicts of key, which has failed, unless the failure is one conflict too many.
func (q *Queue[K]) endUnfinished(key K, end ending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries.get(key); e != nil && e.unfinished != nil {
		q.editUnfinishedLocked(e, func(u *outcome.Unfinished) {
			u.Fail(!end.isPanic() && outcome.Of(end.err, false, false) == outcome.Conflict)
		})
	}
}

// resume schedules key, which is in process and has not finished, at the time that its error requests. It returns false if key has been
// unfinished for too long.
func (q *Queue[K]) resume(key K, end ending) (ok bool) {
	hash, group := q.entries.hash(key), q.groupOf(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shutdown {
		return true
	}
	e := q.entryLocked(key, hash, group)
	if e.state == Parked {
		return true
	}
	var d time.Duration
	q.editUnfinishedLocked(e, func(u *outcome.Unfinished) {
		d, ok = u.Continue(end.kind, end.delay, q.budget, q.time(e.firstFailure))
	})
	if !ok {
		return false
	}
	q.addReasonsLocked(e, AddOptions{Reason: end.text})
	if now := q.now(); d > 0 && e.state != Ready && !e.dirty {
		if at := later(now, d); isSooner(at, e.retryAt) {
			q.entries.edit(e).retryAt = at
			q.rescheduleAtLocked(e, now)
		}
	}
	return true
}

// editUnfinishedLocked edits the record of e as an unfinished key.
func (q *Queue[K]) editUnfinishedLocked(e *entry[K], edit func(u *outcome.Unfinished)) {
	var u outcome.Unfinished
	if e.unfinished != nil {
		u = *e.unfinished
	}
	edit(&u)
	switch {
	case u != (outcome.Unfinished{}):
		q.entries.edit(e).unfinished = &u
	case e.unfinished != nil:
		q.entries.edit(e).unfinished = nil
	}
}
