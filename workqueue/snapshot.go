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
	return q.order.n
}

// Stats counts the keys of a [Queue] at one moment.
type Stats struct {
	Ready      int // can be dispatched, now or when a limit allows it
	InProcess  int // dispatched and not done
	Dirty      int // in process, and added again meanwhile
	Delayed    int // with a deadline; such a key may also be ready or in process
	Parked     int // with a spent budget
	Remembered int // known only for past failures

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
		Ready: q.order.n, InProcess: q.inProcess, Dirty: q.dirty, Delayed: q.schedule.n,
		Parked: q.parked.n, Remembered: q.memory.n,
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

// KeyInfo is what a [Queue] knows about a key.
type KeyInfo[K comparable] struct {
	Key   K
	State State
	Dirty bool // in process, and ready again after that

	Since      time.Time // when the key entered its state; zero without Config.Timestamps, unless it is Parked or Remembered
	Next       time.Time // the earlier of its wake-up and its backoff; zero if it has neither
	QuietUntil time.Time // the end of its quiet time; zero if it has none
	Priority   int
	Group      string

	Failures     int       // since the key was last forgotten
	FirstFailure time.Time // the first of these; zero if there is none
	Reasons      []Reason  // the latest ones, the oldest first
}

// State is the state of a key in a [Queue].
type State int

const (
	Ready      State = iota + 1 // waits for a worker
	InProcess                   // was dispatched, and is not done
	Delayed                     // has a deadline and is in no other state
	Parked                      // has spent its budget
	Remembered                  // is known only for past failures
)

// String returns the name of s.
func (s State) String() string {
	if s < Ready || s > Remembered {
		return "Unknown"
	}
	return [...]string{"Ready", "InProcess", "Delayed", "Parked", "Remembered"}[s-1]
}

// Snapshot returns every key that the queue knows, all as they were at one moment. It sorts them by state: Delayed keys in the order in
// which they are due, the others in the order in which they entered their state. It holds the lock while it copies the keys, a few
// milliseconds for 100,000 of them, and does the rest without the lock.
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

// All iterates over the keys that the queue knows, in no particular order. It holds the lock for at most 128 keys at a time, so it delays
// no other call for long. It describes each key as of a different moment. A key that is in the queue all the time is yielded once. A key
// that is removed and added again during the iteration may be yielded twice, or not at all.
func (q *Queue[K]) All() iter.Seq[KeyInfo[K]] {
	return func(yield func(KeyInfo[K]) bool) {
		copies := make([]keyCopy[K], 0, chunkSize)
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

// Info describes one key. It returns false if the queue does not know the key: the key has no pending work and no remembered failures.
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
	info.FirstFailure = q.time(c.failedAt)
	return info
}

// keyCopy is a KeyInfo with times of the queue, and its rank within its state.
type keyCopy[K comparable] struct {
	info                           KeyInfo[K]
	since, next, quietAt, failedAt int64
	due                            int64 // 0 unless Delayed
	rank                           uint64
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

// copyChunk appends copies of the entries in use of chunk n of the pool. It returns false if there is no such chunk.
func (q *Queue[K]) copyChunk(n int, copies []keyCopy[K]) ([]keyCopy[K], bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n >= len(q.pool.chunks) {
		return copies, false
	}
	entries := q.pool.chunks[n].entries
	for i := range entries {
		if e := &entries[i]; e.state != resting || e.isScheduled() {
			copies = append(copies, q.copyLocked(e))
		}
	}
	return copies, true
}

// copyLocked returns a copy of e.
func (q *Queue[K]) copyLocked(e *entry[K]) keyCopy[K] {
	info := KeyInfo[K]{Key: e.key, State: publicStates[e.state], Dirty: e.dirty, Priority: e.priority, Failures: int(e.failures)}
	if e.group != nil {
		info.Group = e.group.name
	}
	info.Reasons = e.reasons.list()
	c := keyCopy[K]{info, e.since, earliest(e.wakeAt, e.retryAt), e.quietAt, e.failedAt, 0, e.number}
	if e.state == resting {
		c.due, c.rank = e.due(), uint64(e.wakeup)
	}
	if !q.cfg.Timestamps && e.state != parked && e.state != remembered {
		c.since = 0
	}
	return c
}

var publicStates = [...]State{resting: Delayed, remembered: Remembered, ready: Ready, processing: InProcess, parked: Parked}

// Ready returns the keys that [Queue.TryTake] would return now, one after the other. It omits the keys of a group beyond its
// limit, and ignores Config.DispatchLimit. It holds the lock while it copies the order.
func (q *Queue[K]) Ready() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.order.keys()
}

// queued is what is left of a lane.
type queued[K comparable] struct {
	entries []*entry[K]
	group   *group[K]
}

// keys returns what pop would return, one after the other, if each entry were begun and none ended.
func (o *order[K]) keys() []K {
	keys := make([]K, 0, o.n)
	for e := range o.plain.all() {
		keys = append(keys, e.key)
	}
	levels := make([][]queued[K], len(o.levels)) // of each, the lanes in the order of their turns
	for i, l := range o.levels {
		for n := l.turn; n != nil; {
			levels[i] = append(levels[i], queued[K]{n.entries(), n.group})
			if n = n.next; n == l.turn {
				break
			}
		}
	}
	began := make(map[*group[K]]int)
	for {
		best := -1
		for i, lanes := range levels {
			if len(lanes) > 0 && (best < 0 || o.isOlder(lanes[0].entries[0], levels[best][0].entries[0])) {
				best = i
			}
		}
		if best < 0 {
			return keys
		}
		first := levels[best][0]
		keys = append(keys, first.entries[0].key)
		levels[best] = levels[best][1:]
		if first.entries = first.entries[1:]; len(first.entries) > 0 {
			levels[best] = append(levels[best], first)
		}
		g := first.group
		if began[g]++; g != nil && o.limit > 0 && g.inProcess+began[g] >= o.limit {
			for i := range levels {
				levels[i] = slices.DeleteFunc(levels[i], func(l queued[K]) bool { return l.group == g })
			}
		}
	}
}

// entries returns the entries of the lane, in order.
func (n *lane[K]) entries() []*entry[K] {
	entries := append(slices.Collect(n.list.all()), n.raised...)
	slices.SortFunc(entries, func(a, b *entry[K]) int { return cmp.Compare(a.number, b.number) })
	return entries
}
