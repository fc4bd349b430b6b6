package lease

import (
	"context"
	"log/slog"
	"time"

	"github.com/setpoint-go/setpoint/wait"
)

// Link joins the slots of a replica to the elector of one of their leases. The store in the Config of that elector
// carries it: see [Linked]. Users cannot make one, so nobody else meets it.
type Link struct {
	// The slots set the following, before leaderelect.New.

	Incarnation string        // of the replica: its electors are one
	HeadStart   time.Duration // in RetryPeriods: how long the elector leaves the lease to a preferred successor; 0 is the default
	Amend       func(*Record) // completes a record that is about to be written; nil is nothing
	Prior       Observation   // what is known before the first read; zero is nothing

	// leaderelect.New sets the following.

	Timing
	Log  *slog.Logger
	Poll func() time.Duration // how long a follower waits between two looks

	// Revoke makes the elector drain and release the lease, to the given successor, and not take it again. It does not
	// wait, and may be called again with another successor. Admit undoes it, from the next term on.
	Revoke func(successor string)
	Admit  func()

	// Check returns what is wrong with the leadership, and what is wrong with the store.
	Check func(tolerance time.Duration) (own, store error)
}

// Timing is the durations of a Config, with its defaults.
type Timing struct {
	LeaseDuration, RetryPeriod, RequestTimeout, DrainTimeout time.Duration
}

// Linked is a store that carries a link.
type Linked interface{ Link() *Link }

// Guard runs a callback in a goroutine of its own and waits for it, so that neither a panic nor runtime.Goexit goes any
// further. Both become errors.
func Guard(ctx context.Context, f func(context.Context) error) error {
	var g wait.Group
	g.Start(ctx, f)
	return g.Wait()
}
