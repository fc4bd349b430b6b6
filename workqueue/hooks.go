package workqueue

import "time"

// Hooks observe a [Queue]. Each may be nil. They are called without locks, so they may call the queue, by the goroutine whose
// call made it happen, or by that of the timer when something is due; several may be called at once. They should be
// fast. Together with [Queue.Stats] they give all seven metrics of client-go's workqueue:
//
//	workqueue_adds_total                     Added
//	workqueue_depth                          Stats: Ready + Dirty
//	workqueue_queue_duration_seconds         HandedOut
//	workqueue_work_duration_seconds          Done
//	workqueue_retries_total                  Delayed
//	workqueue_unfinished_work_seconds        Stats: Unfinished
//	workqueue_longest_running_processor_seconds  Stats: LongestRunning
type Hooks[K comparable] struct {
	// Added is called when a key has become ready, or has become dirty, by an addition: one that was not one too many. What
	// is delayed or debounced is added when it is due. So the calls of Added less those of HandedOut are the depth, but
	// for keys that Cancel took back.
	Added func(key K)

	// HandedOut is called when a key is handed out, after it was ready for so long. What it waited for before, as a delay
	// or the Done of the attempt before, does not count.
	HandedOut func(key K, waited time.Duration)

	// Done is called when a key is done, after it was in process for so long.
	Done func(key K, took time.Duration)

	// Delayed is called by AddAfter, by AddRateLimited unless it parks the key, and by AddWith with After, At or RateLimited,
	// with the delay: also when the delay is nothing, and when nothing is scheduled, since an earlier deadline stands or the
	// key is about to be tried.
	Delayed func(key K, d time.Duration)

	// Parked is called when a key has spent its budget, after so many attempts.
	Parked func(key K, attempts int)

	// StrayDone is called for a Done of a key that is not in process. Defaults to an error in the log.
	StrayDone func(key K)
}
