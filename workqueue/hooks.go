package workqueue

import "time"

// Hooks observe a [Queue]. Each may be nil. They are called without locks, by the goroutine whose call made it happen, and
// should be fast. Together with [Queue.Stats] they give all seven metrics of client-go's workqueue:
//
//	workqueue_adds_total                     Added
//	workqueue_depth                          Stats: Ready + Dirty
//	workqueue_queue_duration_seconds         HandedOut
//	workqueue_work_duration_seconds          Done
//	workqueue_retries_total                  Delayed
//	workqueue_unfinished_work_seconds        Stats: Unfinished
//	workqueue_longest_running_processor_seconds  Stats: LongestRunning
type Hooks[K comparable] struct {
	// Added is called when a key was added that did not wait to be handed out: an addition that was not one too many.
	Added func(key K)

	// HandedOut is called when a key is handed out, after it was ready for so long.
	HandedOut func(key K, waited time.Duration)

	// Done is called when a key is done, after it was in process for so long.
	Done func(key K, took time.Duration)

	// Delayed is called when a key is to be added later, by AddAfter, AddRateLimited or AddWith, also when an earlier
	// wake-up stands.
	Delayed func(key K, d time.Duration)

	// Parked is called when a key has spent its budget, after so many attempts.
	Parked func(key K, attempts int)

	// StrayDone is called for a Done of a key that is not in process. Defaults to an error in the log.
	StrayDone func(key K)
}
