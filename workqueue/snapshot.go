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

	Since    time.Time // when it got into its state; zero if that was not noted: see Config.Timestamps
	Next     time.Time // when it is to be added; zero for never
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

// Snapshot returns every key that the queue has something to do with, all as it was at one moment: by state, those of a
// state in the order in which they got into it, as far as that was noted. It holds the lock for a copy of the keys, some
// milliseconds for 100,000 of them, and does the rest without.
func (q *Queue[K]) Snapshot() []KeyInfo[K] {
	infos, raw := q.copyKeys()
	for i := range infos {
		infos[i].Since, infos[i].Next, infos[i].Calm = q.time(raw[i].since), q.time(raw[i].wakeAt), q.time(raw[i].calmAt)
		infos[i].FirstFailure = q.time(raw[i].failedAt)
	}
	slices.SortStableFunc(infos, func(a, b KeyInfo[K]) int {
		return cmp.Or(cmp.Compare(a.State, b.State), a.Since.Compare(b.Since), a.Next.Compare(b.Next))
	})
	return infos
}

// times are the times of an entry, as the queue has them.
type times struct{ since, wakeAt, calmAt, failedAt int64 }

func (q *Queue[K]) copyKeys() ([]KeyInfo[K], []times) {
	q.mu.Lock()
	n := len(q.entries)
	q.mu.Unlock()
	n += n/8 + 8 // some may come meanwhile
	infos, raw := make([]KeyInfo[K], 0, n), make([]times, 0, n)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		info := KeyInfo[K]{Key: e.key, State: e.publicState(), Dirty: e.dirty, Priority: e.priority, Failures: e.failures}
		if e.group != nil {
			info.Group = e.group.name
		}
		info.Reasons = e.reasons.list()
		infos = append(infos, info)
		since := e.since
		if (e.state == ready || e.state == processing) && !q.cfg.Timestamps {
			since = 0
		}
		raw = append(raw, times{since, e.wakeAt, e.calmAt, e.failedAt})
	}
	return infos, raw
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
	for e := q.parked.first; e != nil; e = e.next {
		keys = append(keys, e.key)
	}
	return keys
}
