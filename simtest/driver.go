package simtest

import (
	"context"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/setpoint-go/setpoint/manager"
)

// driver makes the systems of a run act: [stepDriver] in step mode, [runDriver] in run mode.
type driver interface {
	// start returns the driver of a process, which has no parts yet.
	start(*process) (processDriver, error)

	// end waits until all goroutines of the driver have ended. Every process has been stopped before.
	end()
}

// processDriver drives one process.
type processDriver interface {
	// These add a part to the process. They start none.
	joinLoop(loop) error
	joinCache(controller.Informer) error
	joinBackground(manager.Part) error

	// begin starts the parts.
	begin()

	// deliver makes every cache read what it may, and calls the handlers. It returns false if there was nothing to read.
	deliver() bool

	// work lets a controller reconcile what is ready. It returns false if nothing is.
	work(loop) bool

	// takesTurns reports whether a call with this context has to wait for its turn, because other goroutines make calls too.
	takesTurns(ctx context.Context) bool

	// check fails the run if the process has ended by itself.
	check()

	// unsettled reports whether something may happen just because time passes, apart from delayed keys.
	unsettled() bool

	// depose takes the lease away, without the knowledge of the process. If the process hangs, its calls for the lease wait until
	// unhang.
	depose(hangs bool)
	unhang()

	// noticeLoss lets the process notice that it has lost its lease. onStandby reports whether everything that it did with the lease has
	// ended. Then lead gives the lease back, with the next term.
	noticeLoss()
	onStandby() bool
	lead()

	// restart ends the process because a fault says so, and stop at the end of the run: gracefully, if the driver can.
	restart()
	stop()

	// kill ends the process at once, right before its context and its calls end. end waits for the goroutines that end by themselves.
	kill()
	end()
}
