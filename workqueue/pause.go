package workqueue

// Pausable is a queue that can be paused. Its method set equals that of client-go's Pausable.
type Pausable interface {
	Pause()
	Resume()
}

// Pause makes the queue dispatch no key until [Queue.Resume]: Get and Take wait, TryTake and TryTakeKey return false, and [Queue.Run] begins no
// work. Everything else continues. Keys in process stay with their workers, keys can be added and done, and delays end, so more keys
// become ready. Pause does not wait for the work in process. Pausing a paused queue has no effect.
//
// A shutdown takes precedence over a pause, and a pause over the ready keys: once a paused queue is shut down, no matter which came first, Get
// and Take report the shutdown at once, and a drain waits only for the keys in process. The ready keys stay in the queue. So a Pause before
// ShutDown stops the work as soon as the keys in process are done, as controller-runtime's queue does. A Resume makes the ready keys
// available again, even after a shutdown.
func (q *Queue[K]) Pause() {
	q.mu.Lock()
	q.paused = true
	ended := q.waitersToEndLocked()
	idle := q.idleLocked()
	q.mu.Unlock()
	wakeAll(ended)
	announce(idle)
}

// Resume ends a [Queue.Pause]. Resuming a queue that is not paused has no effect.
func (q *Queue[K]) Resume() {
	q.mu.Lock()
	var ws []*waiter
	if q.paused {
		q.paused = false
		ws = q.waiters.clear() // those that find no key wait again
	}
	q.mu.Unlock()
	wakeAll(ws)
}
