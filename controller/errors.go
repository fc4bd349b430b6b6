package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

var (
	// ErrRunning says that a controller is at work already: Run was called while another Run or a Step was
	// under way, or it was connected; or Connect was called while it ran or was connected.
	ErrRunning = errors.New("controller: already running")

	// ErrTimeout is in the chain of the cause with which the context of a Reconcile ends after [Config.Timeout].
	ErrTimeout = errors.New("controller: the reconcile took too long")

	// ErrSuperseded is the cause with which the context of a Reconcile ends, with [Config].CancelSuperseded, because its key
	// was added again: the key is reconciled again at once.
	ErrSuperseded = errors.New("controller: superseded by a newer event")

	// ErrParked says that a key was given up: its error was permanent, or the key has failed more often, or for longer, than
	// its budget allows.
	ErrParked = errors.New("controller: parked")

	// ErrDrainTimeout is in the chain of the cause with which the context of a Reconcile ends after
	// [Config.DrainTimeout], and in the error of a Run that did not get done in that time.
	ErrDrainTimeout = errors.New("controller: not drained in time")
)

// errSyncTimeout says that a cache was not filled in time.
var errSyncTimeout = errors.New("controller: not synced in time")

// errSilent says that a source is silent for Config.SilentAfter.
var errSilent = errors.New("controller: the source is silent")

// errGoexit is the value of the [wait.PanicError] of a reconcile that has called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("controller: the reconcile called runtime.Goexit")

// errNotOwned is in the error of a reconcile of a key that is another replica's.
var errNotOwned = errors.New("controller: the key belongs to another replica")

// isFenced reports whether a store has refused a write of err because a later leader has written: err wraps
// [store.ErrFenced], or an error of its chain says so by a method Fenced() bool.
func isFenced(err error) bool {
	if errors.Is(err, store.ErrFenced) {
		return true
	}
	var e interface{ Fenced() bool }
	return errors.As(err, &e) && e.Fenced()
}

// after returns an error, different from every other, that says which limit was passed.
func after(sentinel error, limit time.Duration) error {
	return fmt.Errorf("%w: %v have passed", sentinel, limit)
}

// checkError panics if a method of err that will be called does: here, where that is captured, and not later.
func checkError(err error) {
	_ = err.Error()
	_ = errors.As(err, new(*wait.PanicError))
	_, _ = retry.Delay(err)
	_ = retry.IsConflict(err)
	_ = isFenced(err)
}
