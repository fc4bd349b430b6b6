package controller

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// RunUntilSignal calls run with a context that ends when the process receives an interrupt or SIGTERM, and returns what
// run returns. The cause of the context names the signal. The next such signal exits the process at once, with status 1:
// for people who do not want to wait for the end of a drain.
//
//	err := controller.RunUntilSignal(context.Background(), manager.Run)
func RunUntilSignal(ctx context.Context, run func(context.Context) error) error {
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
			cancel(fmt.Errorf("controller: received signal: %v", s))
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
