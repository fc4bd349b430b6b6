package workqueue

import "time"

// Totals is what a [Queue] has done since [New].
type Totals struct {
	Added   uint64 // additions that made a key ready or dirty: see Hooks.Added
	Delayed uint64 // additions with a delay, and failures that did not park their key: see Hooks.Delayed

	// Waited has, for each dispatch, how long the key had been ready. Worked has, for each Done, how long the key had been in process. Both
	// are empty without Config.Timestamps.
	Waited, Worked Histogram
}

// Histogram counts durations by length. Two histograms of one source have the same Bounds.
type Histogram struct {
	Bounds []time.Duration // upper bounds, inclusive and ascending
	Counts []uint64        // of the durations between two bounds; the last one counts those above all bounds
	Sum    time.Duration   // of all durations
}

// Count returns the number of durations.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Totals returns the totals, all taken at one moment. The caller may keep and change the result. The cost does not depend on the number of
// keys.
func (q *Queue[K]) Totals() Totals {
	q.mu.Lock()
	added, delayed, waited, worked := q.added, q.delayed, q.waited, q.worked
	q.mu.Unlock()
	return Totals{Added: added, Delayed: delayed, Waited: waited.histogram(), Worked: worked.histogram()}
}

// The bounds are those of client-go's queue_duration and work_duration, extended to 1000 s: powers of ten from 10 ns.
const (
	bounds     = 12
	firstBound = 10 * time.Nanosecond
)

// tally is a Histogram that is being counted. The lock of the queue guards it.
type tally struct {
	counts [bounds + 1]uint64
	sum    time.Duration
}

func (t *tally) add(d time.Duration) {
	i := 0
	for bound := firstBound; i < bounds && d > bound; bound *= 10 {
		i++
	}
	t.counts[i]++
	t.sum += d
}

func (t *tally) histogram() Histogram {
	h := Histogram{Bounds: make([]time.Duration, bounds), Counts: append([]uint64(nil), t.counts[:]...), Sum: t.sum}
	bound := firstBound
	for i := range h.Bounds {
		h.Bounds[i] = bound
		bound *= 10
	}
	return h
}

// OldestReady returns how long the oldest ready key has been ready. It is 0 if no key is ready, or without Config.Timestamps. With groups,
// its cost is linear in their number. It holds the lock for a batch of groups at a time, so the result may be slightly stale.
func (q *Queue[K]) OldestReady() time.Duration {
	if !q.cfg.Timestamps {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest int64
	note := func(e *entry[K]) {
		if e != nil && (oldest == 0 || e.since < oldest) {
			oldest = e.since
		}
	}
	note(q.order.plain.head())
	for _, l := range q.order.levels {
		note(l.only.head())
	}
	n := 0
	for _, g := range q.order.groups {
		for _, lane := range g.lanes {
			note(lane.head())
		}
		if n++; n%batch == 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
	}
	if oldest == 0 {
		return 0
	}
	return time.Duration(max(q.now()-oldest, 0))
}
