package controller

import (
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Stats is a snapshot of a [Controller]: its work so far, and the keys that are left.
type Stats struct {
	// Running is true during Run.
	Running bool

	// Paused is true between Pause and Resume.
	Paused bool

	// Workers is the number of keys that are reconciled concurrently, unless the controller is paused.
	Workers int

	// Queue counts the keys in the queue.
	Queue workqueue.Stats

	// Totals is what the queue has done since the controller was made.
	Totals workqueue.Totals

	// OldestReady is how long the oldest ready key has been ready. It is 0 if no key is ready.
	OldestReady time.Duration

	// Held is the number of keys that are due but not ready: those of PauseKey, those whose expectations are not met, and those that were
	// added while a Run drains. If the expectations of a key have a time at which they expire, the key also counts in Queue.Delayed.
	Held int

	// HeldBy breaks down Held by reason. It has every reason, even those that hold no key:
	//
	//   - "pause": PauseKey.
	//   - "drain": the key was added while a Run drains, and waits for the next Run.
	//   - "cache" and the name of an informer: the cache does not yet show what the last reconcile of the key wrote.
	//   - "expectations" and a name: one of Config.Expectations. The name is the result of its method Name() string, or, without that
	//     method, its number, counted from 1.
	//
	// A key that waits for several counts for the one that expires last. The sum may be less than Held for a moment.
	HeldBy map[string]int

	// OldestHeld has, by the same reasons, for how long the oldest held key has been held. It is 0 if no key is held.
	OldestHeld map[string]time.Duration

	// CacheLag has, by the name of an informer, how long the cache took to show a write of a reconcile of this controller. One write is
	// measured at a time: the first after the one before has appeared. If it has been missing for longer, CacheLag has that time. It has no
	// entry for an informer that mirrors no store, or to which nothing was written. It is empty with Config.StaleReads.
	CacheLag map[string]time.Duration

	// Unmapped is the number of objects that could not be mapped to keys and will be retried.
	Unmapped int

	// Outcomes counts the reconciles since New by outcome. It has every Outcome, even those that never occurred.
	Outcomes map[Outcome]uint64

	// Requeued, Panics, and Fenced count some of these reconciles. Requeued counts those that succeeded and requested a RequeueAfter.
	// Panics counts those that panicked, even if that parked their key. Fenced counts those that returned the error of a fenced write.
	Requeued, Panics, Fenced uint64

	// Durations has the duration of each reconcile, with the bounds of controller-runtime, from 5 ms to 60 s.
	Durations workqueue.Histogram
}

// Stats returns the numbers of c. The caller may keep and change the result. The cost does not depend on the number of keys, but grows with
// the number of keys in flight and of groups (Config.Queue.Group).
func (c *Controller[K]) Stats() Stats {
	c.mu.Lock()
	s := Stats{Running: c.running, Paused: c.paused, Workers: c.workers}
	c.mu.Unlock()
	s.Unmapped = c.inputs.Unmapped()
	s.Queue, s.Totals, s.OldestReady = c.queue.Stats(), c.queue.Totals(), c.queue.OldestReady()
	s.Held, s.HeldBy, s.OldestHeld = c.agenda.Held()
	s.CacheLag = c.mirrors.Lags()
	sums := c.tally.Sums()
	s.Requeued, s.Panics, s.Fenced, s.Durations = sums.Requeued, sums.Panics, sums.Fenced, sums.Durations
	s.Outcomes = make(map[Outcome]uint64)
	for o := Succeeded; o <= Canceled; o++ {
		s.Outcomes[o] = sums.Outcomes[o]
	}
	return s
}
