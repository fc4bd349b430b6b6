package controller

import (
	"fmt"
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

	// Workers is the number of keys that are reconciled concurrently, unless the controller is paused.
	Workers int

	// Queue counts the keys in the queue.
	Queue workqueue.Stats

	// Totals is what the queue has done since the controller was made.
	Totals workqueue.Totals

	// OldestReady is for how long the key has been ready that has been so for longest. It is 0 if no key is ready.
	OldestReady time.Duration

	// Held is the number of keys that are to be reconciled and are not ready: those of PauseKey, those whose expectations are
	// not met (which are also among Queue.Delayed, if these expire), and those that were added while a Run drains.
	Held int

	// HeldBy divides Held by reason. It has every reason, also those that hold no key:
	//
	//   - "pause": PauseKey.
	//   - "drain": the key was added while a Run drains, and waits for the next Run.
	//   - "cache" and the name of a source: the cache does not show yet what the last reconcile of the key has written.
	//   - "expectations" and a name: one of Config.Expectations. The name is what its method Name() string returns. If it has no
	//     name, its number takes the place, counted from 1.
	//
	// A key that waits for several counts for the one that expires last. The sum may be less than Held for a moment.
	HeldBy map[string]int

	// CacheLag has, by the name of a source, how long the cache took to show the last write that a reconcile of this controller
	// has made, or for how long it has not shown one, if that is more. It has no entry for a source that mirrors no store, or
	// to which nothing was written. It is empty with Config.StaleReads.
	CacheLag map[string]time.Duration

	// Unmapped is the number of objects that could not be mapped to keys and are tried again.
	Unmapped int

	// Outcomes counts the reconciles since New by outcome. It has every Outcome, even those that never occurred.
	Outcomes map[Outcome]uint64

	// Requeued, Panics, and Fenced count some of these reconciles: those that succeeded and asked for a RequeueAfter, those that
	// panicked, even if that has parked their key, and those that returned the error of a fenced write.
	Requeued, Panics, Fenced uint64

	// Durations has the duration of each reconcile, with the bounds of controller-runtime, from 5 ms to 60 s.
	Durations workqueue.Histogram
}

// Stats returns the numbers of c. The caller may keep and change what it gets. The cost does not depend on the number of keys.
func (c *Controller[K]) Stats() Stats {
	c.mu.Lock()
	s := Stats{Running: c.running, Paused: c.paused, Workers: c.workers}
	c.mu.Unlock()
	s.Unmapped = c.inputs.Unmapped()
	s.Queue, s.Totals, s.OldestReady = c.queue.Stats(), c.queue.Totals(), c.queue.OldestReady()
	c.statHeld(&s)
	c.counts.stat(&s)
	return s
}

// statHeld sets what s says of keys that are held, and of caches.
func (c *Controller[K]) statHeld(s *Stats) {
	held := c.holds.Held()
	s.Held = held.All
	s.HeldBy = map[string]int{"pause": held.Paused, "drain": held.Later}
	var reasons []string // in the order of expected
	for i, e := range c.cfg.Expectations {
		name := fmt.Sprint(i + 1)
		if named, ok := e.(interface{ Name() string }); ok && named.Name() != "" {
			name = named.Name()
		}
		reasons = append(reasons, "expectations "+name)
	}
	caches := c.mirrors.Names()
	for _, name := range caches {
		reasons = append(reasons, "cache "+name)
	}
	for i, reason := range reasons {
		n := 0
		if i < len(held.On) {
			n = held.On[i]
		}
		s.HeldBy[reason] += n // two may have one name
	}
	s.CacheLag = make(map[string]time.Duration)
	for i, lag := range c.mirrors.Lags() {
		if lag >= 0 {
			s.CacheLag[caches[i]] = max(s.CacheLag[caches[i]], lag)
		}
	}
}

// counts are of the reconciles of a controller. Workers change them concurrently.
type counts struct {
	outcomes                 [Canceled + 1]atomic.Uint64 // without those of requeued, so that the difference never decreases
	requeued, panics, fenced atomic.Uint64

	durations [durationBounds + 1]atomic.Uint64 // by the place of the bound
	total     atomic.Int64                      // nanoseconds
}

// durationBounds is the number of the bounds of Stats.Durations, and firstBound the first of them.
const (
	durationBounds = 40
	firstBound     = 5 * time.Millisecond
)

// bounds returns the bounds of Stats.Durations.
func bounds() [durationBounds]time.Duration {
	const ms, s = time.Millisecond, time.Second
	return [...]time.Duration{
		firstBound, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 150 * ms, 200 * ms, 250 * ms, 300 * ms, 350 * ms, 400 * ms, 450 * ms, 500 * ms,
		600 * ms, 700 * ms, 800 * ms, 900 * ms, s, 1250 * ms, 1500 * ms, 1750 * ms, 2 * s, 2500 * ms, 3 * s, 3500 * ms, 4 * s,
		4500 * ms, 5 * s, 6 * s, 7 * s, 8 * s, 9 * s, 10 * s, 15 * s, 20 * s, 25 * s, 30 * s, 40 * s, 50 * s, 60 * s,
	}
}

// note counts a reconcile. It panicked if the reconcile function, and not GaveUp, did.
func (n *counts) note(outcome Outcome, retry time.Duration, err error, panicked bool, took time.Duration) {
	if outcome == Succeeded && retry > 0 {
		n.requeued.Add(1)
	} else {
		n.outcomes[outcome].Add(1)
	}
	if err != nil && isFenced(err) {
		n.fenced.Add(1)
	}
	if panicked {
		n.panics.Add(1)
	}
	i := 0
	if took > firstBound { // most take less
		all := bounds()
		i, _ = slices.BinarySearch(all[:], took)
	}
	n.durations[i].Add(1)
	n.total.Add(int64(took))
}

// stat sets what s says of reconciles.
func (n *counts) stat(s *Stats) {
	s.Outcomes = make(map[Outcome]uint64, len(n.outcomes))
	for o := Succeeded; o <= Canceled; o++ {
		s.Outcomes[o] = n.outcomes[o].Load()
	}
	s.Requeued, s.Panics, s.Fenced = n.requeued.Load(), n.panics.Load(), n.fenced.Load()
	s.Outcomes[Succeeded] += s.Requeued
	all := bounds()
	s.Durations = workqueue.Histogram{Bounds: all[:], Sum: time.Duration(n.total.Load())}
	for i := range n.durations {
		s.Durations.Counts = append(s.Durations.Counts, n.durations[i].Load())
	}
}
