package workqueue

import (
	"cmp"
	"slices"
	"time"
)

// KeyInfo is what a [Queue] knows of a key.
type KeyInfo[K comparable] struct {
	Key   K
	State State
	Dirty bool // in process, and to be ready again after that

	Since    time.Time // when it got into its state; zero without Config.Timestamps, unless it is Parked or Remembered
	Next     time.Time // when it is to be added, by a wake-up or a backoff; zero for never
	Calm     time.Time // when its Adds will have been quiet for long enough; zero if it does not wait for that
	Priority int
	Group    string

	Failures     int       // since it was last forgotten
	FirstFailure time.Time // of these; zero if there was none
	Reasons      []Reason  // the last ones, the oldest first
}

// State is what a key does.
type State int

const (
	Ready      State = iota + 1 // it waits to be handed out
	InProcess                   // it is handed out
	Delayed                     // it waits to be added
	Parked                      // it has spent its budget
	Remembered                  // nothing, but it has failed and was not forgotten
)

// String returns the name of s.
func (s State) String() string {
	switch s {
	case Ready:
		return "Ready"
	case InProcess:
		return "InProcess"
	case Delayed:
		return "Delayed"
	case Parked:
		return "Parked"
	case Remembered:
		return "Remembered"
	default:
		return "Unknown"
	}
}

// Snapshot returns every key that the queue has something to do with, all as it was at one moment: by state, those that are
// delayed in the order in which they are due, the others in the order in which they got into their state. It holds the lock
// for a copy of the keys, some milliseconds for 100,000 of them, and does the rest without.
func (q *Queue[K]) Snapshot() []KeyInfo[K] {
	copies := q.copyKeys()
	slices.SortFunc(copies, func(a, b keyCopy[K]) int {
		return cmp.Or(cmp.Compare(a.info.State, b.info.State), cmp.Compare(a.due, b.due), cmp.Compare(a.rank, b.rank))
	})
	infos := make([]KeyInfo[K], len(copies))
	for i, c := range copies {
		infos[i] = c.info
		infos[i].Since, infos[i].Next, infos[i].Calm = q.time(c.since), q.time(c.next), q.time(c.calmAt)
		infos[i].FirstFailure = q.time(c.failedAt)
	}
	return infos
}

// keyCopy is a key with its times as the queue has them, and its place among those of its state.
type keyCopy[K comparable] struct {
	info                          KeyInfo[K]
	since, next, calmAt, failedAt int64
	due                           int64 // 0 unless it is delayed
	rank                          uint64
}

func (q *Queue[K]) copyKeys() []keyCopy[K] {
	q.mu.Lock()
	n := q.entries.n
	q.mu.Unlock()
	n += n/8 + 8 // some may come meanwhile
	copies := make([]keyCopy[K], 0, n)
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := range q.entries.all() {
		info := KeyInfo[K]{Key: e.key, State: e.publicState(), Dirty: e.dirty, Priority: e.priority, Failures: int(e.failures)}
		if e.group != nil {
			info.Group = e.group.name
		}
		info.Reasons = e.reasons.list()
		c := keyCopy[K]{info, e.since, earliest(e.wakeAt, e.retryAt), e.calmAt, e.failedAt, 0, e.number}
		if e.state == resting {
			c.due, c.rank = e.due(), uint64(e.wakeup)
		}
		if !q.cfg.Timestamps && e.state != parked && e.state != remembered {
			c.since = 0
		}
		copies = append(copies, c)
	}
	return copies
}

func (e *entry[K]) publicState() State {
	switch e.state {
	case ready:
		return Ready
	case processing:
		return InProcess
	case parked:
		return Parked
	case remembered:
		return Remembered
	default:
		return Delayed
	}
}

// Parked returns the keys that are parked, the longest parked first.
func (q *Queue[K]) Parked() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := make([]K, 0, q.parked.n)
	for e := range q.parked.all() {
		keys = append(keys, e.key)
	}
	return keys
}
