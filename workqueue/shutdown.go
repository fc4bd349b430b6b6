package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// ErrShutDown reports that the queue was shut down. [Queue.Take] returns it when nothing is left to dispatch, and [Queue.Drain] when a call
// of [Queue.ShutDown] released it before all work was done.
var ErrShutDown = errors.New("workqueue: the queue is shut down")

// ShutDown ends the intake: it drops all wake-ups and backoffs, and later additions have no effect. Keys in their quiet time
// become ready or dirty. Workers still get all ready and dirty keys, unless the queue is paused; then Take and Get report the shutdown. Parked
// keys and counts of failures stay. ShutDown does not wait for workers, and it releases all calls of Drain. It may be called again.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	q.beginShutDownLocked()
	released := q.released
	q.released = nil
	q.mu.Unlock()
	announce(released)
	q.endDeadlines()
}

// ShutDownWithDrain is [Queue.Drain] without a time limit. Prefer Drain.
func (q *Queue[K]) ShutDownWithDrain() {
	// The background context does not end, and this method has no way to report a release by ShutDown.
	_ = q.Drain(context.Background())
}

// Drain ends the intake, as ShutDown does, and waits until every key that is ready, in process, or dirty is done. Workers must keep calling
// Take and Done in other goroutines. Drain also waits until the calls of Hooks.Added and RateLimiter.Forget that the time has brought have
// returned: after Drain, the queue calls them only for calls of yours. Drain then returns nil. If a later call of ShutDown releases it, it
// returns [ErrShutDown]. If ctx ends first, it returns an error that wraps the cause and says how much is left. If several of these have
// happened, nil takes precedence, then ErrShutDown. Drains may run concurrently, and none releases another. If the queue is paused, Drain does
// not wait for ready keys, which stay.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	q.beginShutDownLocked()
	if q.released == nil {
		q.released = make(chan struct{})
	}
	released := q.released
	q.mu.Unlock()
	q.endDeadlines()
	q.mu.Lock()
	idle := q.waitIdleLocked()
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-released:
	case <-ctx.Done():
	}
	// Several may have happened, and select chooses any of them.
	q.mu.Lock()
	wasIdle, wasReleased, ready, inProcess := q.idle != idle, q.released != released, q.line.len(), q.inProcess
	q.mu.Unlock()
	switch {
	case wasIdle:
		return nil
	case wasReleased:
		return ErrShutDown
	}
	return fmt.Errorf("workqueue: drain %s: %d keys ready, %d in process: %w", q.cfg.Name, ready, inProcess, context.Cause(ctx))
}

// WaitIdle waits until the queue is idle: until no key is ready, in process, or in its quiet time, and no hook is called for a key that was
// due. Wake-ups and backoffs do not count; [Queue.Stats] counts them. If ctx ends first, WaitIdle returns its cause. If both have happened,
// it returns nil.
func (q *Queue[K]) WaitIdle(ctx context.Context) error {
	q.mu.Lock()
	idle := q.waitIdleLocked()
	q.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	// Both may have happened, and select chooses either of them.
	q.mu.Lock()
	wasIdle := q.idle != idle
	q.mu.Unlock()
	if wasIdle {
		return nil
	}
	return context.Cause(ctx)
}

// ShuttingDown reports whether the queue has been shut down.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shutdown
}

// beginShutDownLocked ends the intake and stops the timer. The caller calls endDeadlines next.
func (q *Queue[K]) beginShutDownLocked() {
	q.shutdown = true
	if q.timer != nil {
		q.timer.Stop()
		q.armedFor = 0
	}
}

// endDeadlines ends all deadlines after the shutdown.
func (q *Queue[K]) endDeadlines() {
	for q.endSome() {
		// The lock is free between two batches.
	}
}

// endSome ends a batch of deadlines, and reports whether there are more. Keys in their quiet time become ready or dirty, in the order in
// which their quiet times would have ended. Until the last quiet time has ended, the queue is neither idle nor over.
func (q *Queue[K]) endSome() (more bool) {
	var added []addition[K]
	var wake []*waiter
	q.mu.Lock()
	for i := 0; i < batch && q.schedule.len() > 0; i++ {
		e := q.nextToEndLocked()
		if e.quietUntil != 0 && e.quietUntil == e.due() {
			w, changed := q.makeReadyLocked(e)
			if w != nil {
				wake = append(wake, w)
			}
			if changed && q.cfg.Hooks.Added != nil {
				added = append(added, addition[K]{e.key, e.priority})
			}
		}
		e.wakeAt = 0
		if e.retryAt != 0 {
			e.retryAt = 0
		}
		q.rescheduleLocked(e) // a quiet key whose turn comes later stays
		q.settleLocked(e)
	}
	if more = q.schedule.len() > 0; !more {
		q.schedule.release()
		wake = append(wake, q.waiters.clear()...) // to see whether they must stop
	}
	q.unlockAndNotify(wake, added, nil)
	return more
}

// nextToEndLocked returns an entry whose deadlines end next: the first one while there are quiet keys, because their order counts.
func (q *Queue[K]) nextToEndLocked() *entry[K] {
	if q.quiet == 0 {
		return q.schedule.last()
	}
	e, _ := q.schedule.first()
	return e
}

// isOverLocked reports whether the queue is shut down and no key is ready or will be, except for dirty keys, or it is paused.
func (q *Queue[K]) isOverLocked() bool {
	return q.shutdown && (q.paused || q.line.len() == 0 && q.quiet == 0)
}

// waitersToEndLocked removes all workers from the list if the queue is over. The caller wakes them, to see whether they must stop.
func (q *Queue[K]) waitersToEndLocked() []*waiter {
	if !q.isOverLocked() {
		return nil
	}
	return q.waiters.clear()
}

// waitIdleLocked returns a channel that is closed when the queue is idle, or nil if it is idle now.
func (q *Queue[K]) waitIdleLocked() chan struct{} {
	if q.isIdleLocked() {
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	return q.idle
}

// idleLocked returns the channel to close if the queue is idle and a caller waits for that, or else nil.
func (q *Queue[K]) idleLocked() chan struct{} {
	if q.idle == nil || !q.isIdleLocked() {
		return nil
	}
	idle := q.idle
	q.idle = nil
	return idle
}

func (q *Queue[K]) isIdleLocked() bool {
	return (q.line.len() == 0 || q.paused && q.shutdown) && q.inProcess == 0 && q.quiet == 0 && q.notifying == 0
}

// announce closes c, unless it is nil.
func announce(c chan struct{}) {
	if c != nil {
		close(c)
	}
}
