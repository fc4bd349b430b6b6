package controller_test

import (
	"context"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/setpoint-go/setpoint/controller"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheFirstSignalStopsAndTheSecondExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		exited := make(chan int, 1)
		release, exiting := make(chan struct{}), make(chan struct{})
		var cause error
		r := start(t, func(ctx context.Context) error {
			return controller.RunUntil(ctx, signals, func(status int) { exited <- status; <-exiting }, func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				<-release
				return errBoom
			})
		})
		synctest.Wait()
		signals <- syscall.SIGTERM
		synctest.Wait()
		require.EqualError(t, cause, "controller: received signal: terminated")
		assert.Empty(t, exited)
		assert.False(t, r.ended(), "it waits for the end of run")
		signals <- os.Interrupt
		synctest.Wait()
		require.Len(t, exited, 1)
		assert.Equal(t, 1, <-exited)
		close(release)
		synctest.Wait()
		assert.False(t, r.ended(), "its goroutine has not")
		close(exiting)
		<-r.done
		require.ErrorIs(t, r.err, errBoom)
	})
}

func TestARunThatEndsWithoutASignalLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := controller.RunUntil(t.Context(), make(chan os.Signal), nil, func(context.Context) error { return errBoom })
		require.ErrorIs(t, err, errBoom)
		assertNoGoroutines(t)
	})
}

func TestASignalOfTheSystemStopsRunUntilSignal(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot send itself a signal")
	}
	err := controller.RunUntilSignal(t.Context(), func(ctx context.Context) error {
		p, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, p.Signal(syscall.SIGTERM))
		<-ctx.Done()
		return context.Cause(ctx)
	})
	require.EqualError(t, err, "controller: received signal: terminated")
}
