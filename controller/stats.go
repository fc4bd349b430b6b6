package controller

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/setpoint-go/setpoint/workqueue"
)

// Stats is a snapshot of a [Controller]: its work so far, and the keys that are left.
type Stats struct {
	// Running is true during Run.
	Running bool

	// Paused is true between Pause and Resume.
	Paused bool

	// TakingOver is for how long Run has waited until its caches show all that was written before its leadership began. It is 0 if Run does not
	// wait for that.
	TakingOver time.Duration

	// Workers is the number of keys that are reconciled concurrently, unless the controller is paused.
	Workers int

	// Queue counts the keys in the queue.
	Queue workqueue.Stats

	// Totals is what the queue has done since the controller was made.
	Totals workqueue.Totals

	// OldestReady is how long the oldest ready key has been ready. It is 0 if no key is ready.
	OldestReady time.Duration

	// DepthByPriority is the number of keys that are ready or dirty, by priority.
	DepthByPriority map[int]int

	// Held is the number of keys that are due but not ready: those of PauseKey, those whose expectations are not met, and those that were
	// added while a Run drains. A key that was ready or scheduled before it was paused counts when its turn comes.
	Held int

	// HeldBy breaks down Held by reason. It has every reason, even those that hold no key:
	//
	//   - "pause": PauseKey.
	//   - "drain": the key was added while a Run drains, and waits for the next Run.
	//   - "unread" and the name of an informer: the object of the key exists, or may exist, and cannot be read. See For.
	//   - "cache" and the name of an informer: the cache does not yet show what the last reconcile of the key wrote.
	//   - "expectations" and a name: one of Config.Expectations. The name is the result of its method Name() string, or, without that
	//     method, its number, counted from 1.
	//
	// A key that waits for several counts for the one that expires last. The sum may be less than Held for a moment.
	HeldBy map[string]int

	// OldestHeld has, by the same reasons, for how long the oldest held key has been held. It is 0 if no key is held.
	OldestHeld map[string]time.Duration

	// CacheLag has, by the name of an informer, how long the cache took to show a write of a reconcile of this controller. The time begins
	// when the version of the write is known: with the reply of a store.Store, or with the call of VersionOf of a table, so it includes
	// the rest of that transaction. (The 10 s for which a key is held begin at the end of the reconcile.) One write is
	// measured at a time: the first after the one before has appeared. If it has been missing for longer, CacheLag has that time. It has no
	// entry for an informer that mirrors no store, or to which nothing was written. It is empty with Config.StaleReads.
	CacheLag map[string]time.Duration

	// Unmapped is the number of objects that could not be mapped to keys and will be retried, or are being retried.
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
// the number of keys in flight, of held keys, and of groups (Config.Queue.Group).
func (c *Controller[K]) Stats() Stats {
	c.mu.Lock()
	s := Stats{Running: c.running, Paused: c.paused, Workers: c.workers}
	if !c.takingOver.IsZero() {
		s.TakingOver = time.Since(c.takingOver)
	}
	c.mu.Unlock()
	s.Unmapped = c.inputs.unmapped()
	s.Queue, s.Totals, s.OldestReady = c.queue.Stats(), c.queue.Totals(), c.queue.OldestReady()
	s.DepthByPriority = c.queue.DepthByPriority()
	s.Held, s.HeldBy, s.OldestHeld = c.pending.held()
	s.CacheLag = c.caches.lags()
	c.counters.addTo(&s)
	return s
}

// counters count reconciles. No count ever decreases, and each reconcile counts for one outcome and one duration. Counting takes no lock and
// allocates nothing.
type counters struct {
	outcomes       [Canceled + 1]atomic.Uint64 // excluding requeued ones, so that the difference never decreases
	requeued       atomic.Uint64               // of Succeeded
	panics, fenced atomic.Uint64

	durations [durationBounds + 1]atomic.Uint64 // by the place of the bound
	total     atomic.Int64                      // nanoseconds
}

// durationBounds is the number of the bounds of sums.Durations, and firstBound the first of them.
const (
	durationBounds = 40
	firstBound     = 5 * time.Millisecond
)

// bounds returns the bounds of sums.Durations.
func bounds() [durationBounds]time.Duration {
	const ms, s = time.Millisecond, time.Second
	return [...]time.Duration{
		firstBound, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 150 * ms, 200 * ms, 250 * ms, 300 * ms, 350 * ms, 400 * ms, 450 * ms, 500 * ms,
		600 * ms, 700 * ms, 800 * ms, 900 * ms, s, 1250 * ms, 1500 * ms, 1750 * ms, 2 * s, 2500 * ms, 3 * s, 3500 * ms, 4 * s,
		4500 * ms, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s, 15 * s, 20 * s, 25 * s, 30 * s, 40 * s, 50 * s, 60 * s,
	}
}

// note counts a reconcile of this outcome. requeued is true if it has requested a RequeueAfter, panicked if the reconcile function has
// panicked, and fenced if a write was fenced.
func (c *counters) note(o Outcome, requeued, panicked, fenced bool, took time.Duration) {
	if requeued {
		c.requeued.Add(1)
	} else {
		c.outcomes[o].Add(1)
	}
	if panicked {
		c.panics.Add(1)
	}
	if fenced {
		c.fenced.Add(1)
	}
	i := 0
	if took > firstBound { // most take less
		all := bounds()
		i, _ = slices.BinarySearch(all[:], took)
	}
	c.durations[i].Add(1)
	c.total.Add(int64(took))
}

// addTo sets the counts in s.
func (c *counters) addTo(s *Stats) {
	s.Requeued, s.Panics, s.Fenced = c.requeued.Load(), c.panics.Load(), c.fenced.Load()
	s.Outcomes = make(map[Outcome]uint64)
	for o := Succeeded; o <= Canceled; o++ {
		s.Outcomes[o] = c.outcomes[o].Load()
	}
	s.Outcomes[Succeeded] += s.Requeued
	all := bounds()
	s.Durations = workqueue.Histogram{Bounds: all[:], Sum: time.Duration(c.total.Load())}
	for i := range c.durations {
		s.Durations.Counts = append(s.Durations.Counts, c.durations[i].Load())
	}
}
