package workqueue

import "time"

// Stats is a count of the keys of a [Queue] at one moment.
type Stats struct {
	Ready      int // to be handed out, now or when a limit allows
	InProcess  int // handed out and not done
	Dirty      int // of those, added again meanwhile
	Delayed    int // with something scheduled; such a key may be ready or in process as well
	Parked     int // that have spent their budget
	Remembered int // of which nothing but past failures is known

	// Unfinished is how long all keys in process have been so, added up; LongestRunning is the longest of these times. Both
	// are 0 without Config.Timestamps.
	Unfinished     time.Duration
	LongestRunning time.Duration
}

// Stats returns the counts, all of one moment. It takes as long as there are keys in process.
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
