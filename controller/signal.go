package controller

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// RunUntilSignal calls run with a context that ends when the process receives an interrupt (Ctrl-C) or SIGTERM, and
// returns what run returns. It stops in two stages:
//
//   - The first signal begins the orderly stop: it ends the context, with a cause that wraps [ErrSignal] and names the
//     signal. Nothing else happens. How long the stop may take is up to run: for a [Manager],
//     ManagerConfig.StopTimeout.
//   - The second ends the process at once, by os.Exit with status 1: deferred calls do not run, no lease is released, and
//     nothing is drained. It is for people who do not want to wait. It does not matter whether it is the same signal.
//
// The process does not exit otherwise: when run has returned, what becomes of it, and its status, is up to the caller. By
// then signals do again what they did before, so that one which comes later ends the process as usual. On Windows the
// interrupt is also Ctrl-Break, and SIGTERM stands for the closing of the console, a logoff and a shutdown.
//
//	if err := controller.RunUntilSignal(context.Background(), manager.Run); err != nil {
//		fmt.Fprintln(os.Stderr, err)
//		os.Exit(1)
//	}
//
// It panics if run is nil.
func RunUntilSignal(ctx context.Context, run func(context.Context) error) error {
	if run == nil {
		panic("controller: RunUntilSignal called with a nil function")
	}
	signals := make(chan os.Signal, 2) // receives, from package signal, until Stop; never closed
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	return runUntil(ctx, signals, os.Exit, run)
}

// runUntil is RunUntilSignal with the signals and the way to exit given.
func runUntil(ctx context.Context, signals <-chan os.Signal, exit func(int), run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	var listener sync.WaitGroup
	defer listener.Wait()
	defer close(ended)

	// Listens for signals beside run. It ends when run has returned.
	listener.Go(func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("%w: %v", ErrSignal, s))
		case <-ended:
			return
		}
		select {
		case <-signals:
			exit(1)
		case <-ended:
		}
	})
	return run(ctx)
}
