package entry

import "time"

// Entry is what a queue knows about a key. If the key is a string, an entry takes 64 bytes, one cache line. Data that most keys never need is
// in its Details. An entry is in at most one list, or in the line.
type Entry[K comparable] struct {
	Key K // read-only

	// Neighbors in its list. In a free entry, next is the next free entry.
	prev, next id

	id          id
	hash        uint32 // of Key
	wakeup      uint32 // number of its wakeup in the schedule; 0 if it has none
	State       State
	Dirty       bool   // in process, and added since
	Spent       bool   // in process, and the latest failure spent its budget: it is parked when it is done
	Number      uint64 // of the latest change of its state: orders the ready entries, and identifies a dispatch; not 0
	WakeAt      int64  // the wake-up; 0 for none
	*Details[K]        // read-only; to change them, ask the table for the entry's own
}

// Details is data that few keys or configurations need. All other keys share the zero value.
type Details[K comparable] struct {
	Priority int
	group    *group[K] // nil without groups
	RetryAt  int64     // the backoff; 0 for none
	QuietAt  int64     // the end of the quiet time; 0 for none
	QuietBy  int64     // the latest end of the quiet time, however many Adds come
	Since    int64     // when it entered its state, if it is parked or remembered, or Timestamps is on
	Failures int32     // since it was last forgotten
	FailedAt int64     // the first of these failures
	Reasons  *Reasons
}

// State is the state of an entry, apart from its deadlines.
type State uint8

const (
	Resting    State = iota // only has deadlines
	Remembered              // has no deadlines either, but failures that were not forgotten
	Ready                   // can be dispatched
	Processing              // was dispatched, and is not done
	Parked                  // has spent its budget
)

// Due returns the earliest deadline of e, 0 for none.
func (e *Entry[K]) Due() int64 {
	return int64(min(uint64(e.WakeAt)-1, uint64(e.RetryAt)-1, uint64(e.QuietAt)-1) + 1) // 0 minus 1 is the greatest number
}

// Next returns the earlier of the wake-up and the backoff of e, 0 if it has neither.
func (e *Entry[K]) Next() int64 { return int64(min(uint64(e.WakeAt)-1, uint64(e.RetryAt)-1) + 1) }

// IsScheduled reports whether e is in the schedule.
func (e *Entry[K]) IsScheduled() bool { return e.wakeup != 0 }

// Rank orders resting entries that are due at the same time, and the entries of any other state by when they entered it.
func (e *Entry[K]) Rank() uint64 {
	if e.State == Resting {
		return uint64(e.wakeup)
	}
	return e.Number
}

// GroupName returns the name of the group of e, "" if it has none.
func (e *Entry[K]) GroupName() string {
	if e.group == nil {
		return ""
	}
	return e.group.name
}

// Reason is why a key was added, and when.
type Reason struct {
	Text string
	At   time.Time
}

// Reasons are the latest reasons of a key, in a ring. A nil *Reasons is empty.
type Reasons struct {
	ring [maxReasons]Reason
	n    int // the number of reasons ever noted
}

const maxReasons = 8

// Add adds a reason. If there are too many then, the oldest is dropped.
func (r *Reasons) Add(text string, at time.Time) {
	r.ring[r.n%maxReasons] = Reason{text, at}
	r.n++
}

// Len returns the number of reasons.
func (r *Reasons) Len() int {
	if r == nil {
		return 0
	}
	return min(r.n, maxReasons)
}

// At returns a reason. 0 is the oldest.
func (r *Reasons) At(i int) Reason { return r.ring[(r.n-r.Len()+i)%maxReasons] }
