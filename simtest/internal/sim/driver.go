package sim

import (
	"context"

	"github.com/setpoint-go/setpoint/simtest/internal/part"
)

// Driver makes the systems of a run act. Packages step and live implement it.
type Driver interface {
	// Live returns the life of a process, which has no parts yet.
	Live(*Process) Life

	// Work runs the first reconcile that is ready. It returns false if there is none.
	Work() bool

	// End waits until all goroutines of the driver have ended. Every process has been stopped before.
	End()
}

// Life is how a driver runs one process.
type Life interface {
	// Join adds parts to the process. It starts none.
	Join(parts []part.Part) error

	// Begin starts the parts. The views of the process are ready.
	Begin()

	// Deliver makes every cache read what it may, and calls the handlers. It returns false if there was nothing to read.
	Deliver() bool

	// TakesTurns reports whether a call with this context has to wait for its turn, because other goroutines make calls too.
	TakesTurns(ctx context.Context) bool

	// Check fails the run if the process has ended by itself.
	Check()

	// Unsettled reports whether something may happen just because time passes, apart from delayed keys.
	Unsettled() bool

	// Depose takes the lease away, without the knowledge of the process. If the process hangs, its calls for the lease wait until GoOn.
	Depose(hangs bool)
	GoOn()

	// Learn tells the process that it has lost its lease. StandsBy reports whether everything that it did with the lease has ended. Then
	// Lead gives the lease back, with the next term.
	Learn()
	StandsBy() bool
	Lead()

	// Restart ends the process because a fault says so, and Quit at the end of the run: gracefully, if the driver can.
	Restart()
	Quit()

	// Kill ends the process at once, right before its context and its calls end. End waits for the goroutines that end by themselves.
	Kill()
	End()
}
