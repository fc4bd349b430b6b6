package workqueue

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// Len returns the number of ready keys. Keys in process and keys that are only scheduled do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.line.len()
}

// Stats counts the keys of a [Queue] at one moment.
type Stats struct {
	Ready      int // can be dispatched, now or when a limit allows it
	InProcess  int // dispatched and not done
	Dirty      int // in process, and added again meanwhile
	Delayed    int // with a deadline; such a key may also be ready, in process, or parked
	Parked     int // with a spent budget
	Remembered int // in no other state, but with failures that count

	Paused bool // between Pause and Resume: no ready key is dispatched

	// Unfinished is the total time for which the keys in process have been in process, and LongestRunning is the longest of these
	// times. Both are 0 without Config.Timestamps.
	Unfinished     time.Duration
	LongestRunning time.Duration
}

// Stats returns the counts, all taken at one moment. With Config.Timestamps, its cost grows with the number of keys in process.
func (q *Queue[K]) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Stats{
		Ready: q.line.len(), InProcess: q.inProcess, Dirty: q.dirty, Delayed: q.schedule.len(),
		Parked: q.parked.len(), Remembered: q.remembered.len(), Paused: q.paused,
	}
	if first := q.busy.head(); first != nil {
		now := q.now()
		s.LongestRunning = time.Duration(now - first.since)
		for e := range q.busy.all() {
			s.Unfinished += time.Duration(now - e.since)
		}
	}
	return s
}

// DepthByPriority returns how many keys are ready or dirty, by priority. Recently used priorities are there with a depth of 0, and so is
// priority 0.
func (q *Queue[K]) DepthByPriority() map[int]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.line.prioritized() {
		return map[int]int{0: q.line.len() + q.dirty}
	}
	depths := make(map[int]int, len(q.line.levels))
	for _, lv := range q.line.levels {
		depths[lv.priority] = lv.n + lv.dirty
	}
	return depths
}

// KeyInfo describes a key of a [Queue].
type KeyInfo[K comparable] struct {
	Key   K
	State State
	Dirty bool // in process, and ready again after that

	Since      time.Time // when the key entered its state; zero without Config.Timestamps, unless it is Parked or Remembered
	Next       time.Time // the earlier of its wake-up and its backoff; zero if it has neither
	QuietUntil time.Time // the end of its quiet time; zero if it has none
	Priority   int
	Group      string

	Failures     int       // the failures that count since the key was last forgotten
	FirstFailure time.Time // the first failure since then; zero if there is none
	BackoffUntil time.Time // the end of the latest backoff, even if it was dropped or has passed: failures before it do not count
	Reasons      []Reason  // the latest ones, the oldest first
}

// Snapshot returns every key of the queue, all as they were at one moment. It sorts them by state: Delayed keys in the order in
// which they are due, the others in the order in which they entered their state. It holds the lock while it copies the keys, tens of
// milliseconds for 100,000 of them, and does the rest without the lock. [Queue.All] never holds the lock for long.
func (q *Queue[K]) Snapshot() []KeyInfo[K] {
	copies := q.copyKeys()
	slices.SortFunc(copies, func(a, b keyCopy[K]) int {
		return cmp.Or(cmp.Compare(a.info.State, b.info.State), cmp.Compare(a.due, b.due), cmp.Compare(a.rank, b.rank))
	})
	infos := make([]KeyInfo[K], len(copies))
	for i, c := range copies {
		infos[i] = q.infoOf(c)
	}
	return infos
}

// All iterates over the keys of the queue, in no particular order. It holds the lock for at most 128 keys at a time, so it delays
// no other call for long. It describes each key as of a different moment. A key that is in the queue all the time is yielded once. A key
// that is removed and added again during the iteration may be yielded twice, or not at all.
func (q *Queue[K]) All() iter.Seq[KeyInfo[K]] {
	return func(yield func(KeyInfo[K]) bool) {
		var copies []keyCopy[K] // up to chunkSize
		for n, more := 0, true; more; n++ {
			copies, more = q.copyChunk(n, copies[:0])
			for _, c := range copies {
				if !yield(q.infoOf(c)) {
					return
				}
			}
		}
	}
}

// Info describes one key. It returns false if the key is not in the queue: it has no pending work and no remembered failures.
func (q *Queue[K]) Info(key K) (KeyInfo[K], bool) {
	checkKey(key)
	q.mu.Lock()
	e := q.entries.get(key)
	if e == nil {
		q.mu.Unlock()
		return KeyInfo[K]{}, false
	}
	c := q.copyLocked(e)
	q.mu.Unlock()
	return q.infoOf(c), true
}

// infoOf converts a copy to a KeyInfo.
func (q *Queue[K]) infoOf(c keyCopy[K]) KeyInfo[K] {
	info := c.info
	info.Since, info.Next, info.QuietUntil = q.time(c.since), q.time(c.next), q.time(c.quietAt)
	info.FirstFailure, info.BackoffUntil = q.time(c.failedAt), q.time(c.paced)
	return info
}

// keyCopy is a KeyInfo with times of the queue, and its rank within its state.
type keyCopy[K comparable] struct {
	info                                  KeyInfo[K]
	since, next, quietAt, failedAt, paced int64
	due                                   int64 // 0 unless Delayed
	rank                                  uint64
}

func (q *Queue[K]) copyKeys() []keyCopy[K] {
	q.mu.Lock()
	n := q.entries.len()
	q.mu.Unlock()
	if n == 0 {
		return nil
	}
	n += n/8 + 8 // some may be added meanwhile
	copies := make([]keyCopy[K], 0, n)
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := range q.entries.all() {
		copies = append(copies, q.copyLocked(e))
	}
	return copies
}

// copyChunk appends copies of the entries in use of chunk n. An entry stays in its chunk. It returns false if there is no such chunk.
func (q *Queue[K]) copyChunk(n int, copies []keyCopy[K]) ([]keyCopy[K], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	chunks := q.entries.pool.chunks
	if n >= len(chunks) {
		return copies, false
	}
	for i := range chunks[n].entries {
		if e := &chunks[n].entries[i]; e.state != 0 {
			copies = append(copies, q.copyLocked(e))
		}
	}
	return copies, true
}

// copyLocked returns a copy of e.
func (q *Queue[K]) copyLocked(e *entry[K]) keyCopy[K] {
	info := KeyInfo[K]{
		Key: e.key, State: e.state, Dirty: e.dirty, Priority: e.priority, Group: e.groupName(),
		Failures: int(e.failures), Reasons: e.reasons.list(),
	}
	c := keyCopy[K]{info, e.since, e.nextAttempt(), e.quietUntil, e.firstFailure, e.backoffUntil, 0, e.rank()}
	if e.state == Delayed {
		c.due = e.due()
	}
	if !q.cfg.Timestamps && e.state != Parked && e.state != Remembered {
		c.since = 0
	}
	return c
}

// Ready returns the keys that [Queue.TryTake] would return now, one after the other. It omits the keys of a group beyond its
// limit, and ignores Config.DispatchLimit. It is empty while the queue is paused. It holds the lock while it copies the order.
func (q *Queue[K]) Ready() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.paused {
		return nil
	}
	return q.line.keys()
}

// Totals is what a [Queue] has done since [New].
type Totals struct {
	Added   uint64 // additions that made a key ready or dirty: see Hooks.Added
	Delayed uint64 // additions with a delay, and failures that did not spend the budget of their key: see Hooks.Delayed

	// Waited has, for each dispatch, how long the key had waited: see Hooks.Dispatched. Worked has, for each Done, how long the key had been in process. Both
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

// durations is a Histogram that is being counted. The lock of the queue guards it.
type durations struct {
	counts [bounds + 1]uint64
	sum    time.Duration
}

func (t *durations) add(d time.Duration) {
	i := 0
	for bound := firstBound; i < bounds && d > bound; bound *= 10 {
		i++
	}
	t.counts[i]++
	t.sum += d
}

func (d *durations) histogram() Histogram {
	h := Histogram{Bounds: make([]time.Duration, bounds), Counts: append([]uint64(nil), d.counts[:]...), Sum: d.sum}
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
	n := 0
	oldest := q.line.oldest(func() {
		if n++; n%batch == 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
	})
	if oldest == 0 {
		return 0
	}
	return time.Duration(max(q.now()-oldest, 0))
}
