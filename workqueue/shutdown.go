package workqueue

import (
	"context"
	"fmt"
	"slices"
)

// ShutDown ends the intake: from now on nothing can be added, and scheduled wake-ups and backoffs are dropped. Workers
// still get what is ready, and what was added while it was in process before the shutdown; then Next tells them to stop.
// ShutDown does not wait, releases whoever drains, and may be called again.
func (q *Queue[K]) ShutDown() {
	q.mu.Lock()
	wake, added := q.shutDownLocked()
	released := q.released
	q.released = nil
	q.mu.Unlock()
	announce(released)
	wakeAll(wake)
	q.tellAdded(added)
}

// ShutDownWithDrain ends the intake and waits until every key that is ready, in process or added while in process is
// done, or until somebody calls ShutDown. The workers must go on calling Get and Done, in other goroutines. Prefer
// [Queue.Drain], which has a time limit.
func (q *Queue[K]) ShutDownWithDrain() {
	// The background context does not end, and a release by ShutDown is no news to a caller who cannot be told.
	_ = q.Drain(context.Background())
}

// Drain ends the intake and waits until every key that is ready, in process or added while in process is done. It
// returns nil then, [ErrShutDown] when a later call of ShutDown releases it, and an error that wraps the cause of ctx, and
// says what is left, when ctx ends first. The queue is shut down in each case. Several may drain at once.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	wake, added := q.shutDownLocked()
	idle := q.waitIdleLocked()
	if idle != nil && q.released == nil {
		q.released = make(chan struct{})
	}
	released := q.released
	q.mu.Unlock()
	wakeAll(wake)
	q.tellAdded(added)
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
	wasIdle, wasReleased, ready, inProcess := q.idle != idle, q.released != released, q.order.n, q.inProcess
	q.mu.Unlock()
	switch {
	case wasIdle:
		return nil
	case wasReleased:
		return ErrShutDown
	}
	return fmt.Errorf("workqueue: drain %s: %d keys ready, %d in process: %w", q.cfg.Name, ready, inProcess, context.Cause(ctx))
}

// WaitIdle waits until there is a moment at which the queue is idle, or until ctx ends, whose cause it then returns. The
// queue is idle when no key is ready, in process, or added and waiting for Config.Debounce. Keys that are scheduled for
// later do not count; [Queue.Stats] tells how many there are.
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
	// Both may have happened, and select chooses any of them.
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

// shutDownLocked ends the intake and returns the workers to wake. What is in its quiet time was added, and so has its
// effect: those keys are returned as well, in the order of their times.
func (q *Queue[K]) shutDownLocked() (wake []*waiter, added []K) {
	if q.shutdown {
		return nil, nil
	}
	q.shutdown = true
	if q.timer != nil {
		q.timer.Stop()
		q.armedFor = 0
	}
	var calm []wakeup
	for _, w := range q.schedule.clear() {
		e := q.pool.at(w.entry)
		added := e.calmAt != 0
		q.clearDeadlinesLocked(e)
		if added {
			calm = append(calm, w)
		} else {
			q.restLocked(e)
		}
	}
	slices.SortFunc(calm, wakeup.compare)
	wake = q.waiters.clear()
	for _, w := range calm {
		e := q.pool.at(w.entry)
		if _, changed := q.makeReadyLocked(e); changed { // all workers are on the list of those to wake already
			added = append(added, e.key)
		}
	}
	return wake, added
}

// endedLocked returns all workers, to look whether they are to stop, if the queue is shut down and nothing is ready.
func (q *Queue[K]) endedLocked() []*waiter {
	if !q.shutdown || q.order.n > 0 {
		return nil
	}
	return q.waiters.clear()
}

// waitIdleLocked returns a channel that is closed when the queue is idle, nil if it is so now.
func (q *Queue[K]) waitIdleLocked() chan struct{} {
	if q.isIdleLocked() {
		return nil
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
	}
	return q.idle
}

// idleLocked returns the channel to close because the queue is idle, nil if it is not or nobody waits for that.
func (q *Queue[K]) idleLocked() chan struct{} {
	if q.idle == nil || !q.isIdleLocked() {
		return nil
	}
	idle := q.idle
	q.idle = nil
	return idle
}

func (q *Queue[K]) isIdleLocked() bool { return q.order.n == 0 && q.inProcess == 0 && q.calming == 0 }

// announce tells whoever waits for c. A nil c is nobody.
func announce(c chan struct{}) {
	if c != nil {
		close(c)
	}
}
