package lease

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Link connects the slots of a replica with the elector of one of their leases. The store in the Config of that elector
// carries it: see [Linked]. Users cannot make one.
type Link struct {
	// The slots set the following, before leaderelect.New.

	Incarnation string        // of the replica, shared by its electors
	HeadStart   time.Duration // in RetryPeriods: how long the elector leaves the lease to a preferred successor; 0 is the default
	Amend       func(*Record) // completes a record before it is written; may be nil
	Prior       Observation   // the record as it was known before the first read; zero is unknown
	Unwaited    bool          // a run does not wait for calls of the store that have not returned: the slots call Left

	// leaderelect.New sets the following.

	Timing
	Log  *slog.Logger
	Poll func() time.Duration // the time between two reads of a follower

	// Revoke makes the elector drain, release the lease to the given successor, and not take it again. It does not wait, and
	// may be called again with another successor. Admit undoes it from the next term on.
	Revoke func(successor string)
	Admit  func()

	// Left waits for the calls that the last run has left behind. If some do not return in time, the error wraps
	// leaderelect.ErrStoreStuck. It is set by the run.
	Left func(timeout time.Duration) error

	// Check returns the error of the leadership and the error of the store.
	Check func(tolerance time.Duration) (own, store error)
}

// Timing has the durations of a Config, with its defaults.
type Timing struct {
	LeaseDuration, RetryPeriod, RequestTimeout, DrainTimeout time.Duration
}

// minGrace is how much later than its context a call may end, however short the lease is. That depends on the driver, the disk,
// and the load of the machine, and not on the lease.
const minGrace = 5 * time.Second

// Patience returns how long a problem may last before a Check reports it: LeaseDuration and the given tolerance.
func (t Timing) Patience(tolerance time.Duration) time.Duration {
	return t.LeaseDuration + min(tolerance, math.MaxInt64-t.LeaseDuration)
}

// Grace returns how long the end of a run waits for calls whose contexts have ended.
func (t Timing) Grace() time.Duration { return max(t.RequestTimeout, minGrace) }

// Linked is a store that carries a link.
type Linked interface{ Link() *Link }

// Guard runs a callback in its own goroutine and waits for it. A panic or a runtime.Goexit of the callback becomes an error.
func Guard(ctx context.Context, f func(context.Context) error) error {
	var g wait.Group
	g.Start(ctx, f)
	return g.Wait()
}
