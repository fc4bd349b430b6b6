package workqueue

import (
	"slices"
	"time"
)

// Reason is why a key was added, and when.
type Reason struct {
	Text string
	At   time.Time
}

// maxReasons is the number of reasons that the queue keeps of a key.
const maxReasons = 8

// reasons are the last reasons of a key, in a ring. A nil one has none.
type reasons struct {
	ring [maxReasons]Reason
	n    int // of all there were
}

func (r *reasons) add(text string, at time.Time) {
	r.ring[r.n%maxReasons] = Reason{text, at}
	r.n++
}

// list returns the reasons, the oldest first.
func (r *reasons) list() []Reason {
	if r == nil {
		return nil
	}
	if r.n <= maxReasons {
		return slices.Clone(r.ring[:r.n])
	}
	return slices.Concat(r.ring[r.n%maxReasons:], r.ring[:r.n%maxReasons])
}

// noteReasonLocked notes why e is added, if there is anything to note.
func (q *Queue[K]) noteReasonLocked(e *entry[K], text string) {
	if text == "" {
		return
	}
	if e.reasons == nil {
		q.pool.own(e).reasons = new(reasons)
	}
	e.reasons.add(text, time.Now())
}
