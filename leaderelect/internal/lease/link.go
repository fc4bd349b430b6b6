package lease

import (
	"log/slog"
	"time"
)

// Link connects one of several electors that act as one replica with the code that runs them all.
type Link struct {
	// That code sets the following, before the elector is made.

	Incarnation string        // of the replica, shared by its electors
	HeadStart   time.Duration // in RetryPeriods: how long the elector leaves the lease to a preferred successor; 0 is the default
	Amend       func(*Record) // completes a record before it is written; may be nil
	Prior       Observation   // the record, as it was observed before the first read of the elector; zero if it was not
	Persistent  bool          // a store that cannot work does not end a run

	// Leave takes over the wait for calls of the store that a run leaves behind. If some do not return in time, the error of
	// wait says so. If Leave is nil, the run itself waits.
	Leave func(wait func(timeout time.Duration) error)

	// The elector sets the following when it is made.

	Timing
	Log  *slog.Logger
	Poll func() time.Duration // returns the time between two reads of a follower

	// Revoke makes the elector drain, release the lease to the given successor, and not take it again. It does not wait, and
	// may be called again with another successor. Admit undoes it from the next term on.
	Revoke func(successor string)
	Admit  func()

	// Check returns the error of the leadership and the error of the store.
	Check func() (leadership, store error)
}

// Timing has the durations of an elector, with their defaults.
type Timing struct {
	LeaseDuration, RetryPeriod, RequestTimeout, DrainTimeout time.Duration
}

// minGrace is how much later than its context a call may end, however short the lease is. That depends on the driver, the disk,
// and the load of the machine, and not on the lease.
const minGrace = 5 * time.Second

// Grace returns how long the end of a run waits for calls whose contexts have ended.
func (t Timing) Grace() time.Duration { return max(t.RequestTimeout, minGrace) }
