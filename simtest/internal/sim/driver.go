package sim

import (
	"context"

	"github.com/setpoint-go/setpoint/simtest/internal/part"
)

// Driver has the systems of a run act. Package step has one, and package live has another.
type Driver interface {
	// Live returns the life of a process, which has no parts yet.
	Live(*Process) Life

	// Work has the first reconcile happen that can. It returns false if there is none.
	Work() bool

	// End waits until all that the driver has started has ended. Every process has been stopped.
	End()
}

// Life is how a driver runs one process.
type Life interface {
	// Join makes parts those of the process. It starts none.
	Join(parts []part.Part) error

	// Begin starts the parts. The views of the process are as they have to be.
	Begin()

	// Deliver has every cache hear what it may, and calls the handlers. It returns false if there was nothing.
	Deliver() bool

	// TakesTurns reports whether a call with this context has to wait for its turn, since other goroutines make calls, too.
	TakesTurns(ctx context.Context) bool

	// Check fails the run if the process has ended by itself.
	Check()

	// Unsettled reports whether something may happen only because time passes, beside the keys that are delayed.
	Unsettled() bool

	// Depose takes the lease away, and the process does not know it. One that hangs waits in its calls of the lease until GoOn.
	Depose(hangs bool)
	GoOn()

	// Learn tells the process that it has lost its lease. StandsBy reports whether all has ended that it did with the lease. Then Lead
	// gives the lease back, with the next term.
	Learn()
	StandsBy() bool
	Lead()

	// Restart ends the process because a fault says so, and Quit at the end of the run: in order, if the driver can.
	Restart()
	Quit()

	// Kill ends the process at once, right before its context and its calls end. End waits for what can end by itself.
	Kill()
	End()
}
