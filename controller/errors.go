package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/internal/outcome"
	"github.com/setpoint-go/setpoint/retry"
	"github.com/setpoint-go/setpoint/wait"
)

var (
	// ErrRunning reports that the controller is already in use. Run returns it during another Run, during a Step, and while the
	// controller is connected. Connect returns it during a Run, and while the controller is connected.
	ErrRunning = errors.New("already running")

	// ErrParked reports that a key is no longer retried: its error was permanent, or the key has spent its budget (see [Outcome]).
	ErrParked = errors.New("parked")

	// ErrDrainTimeout reports that [Config.DrainTimeout] has passed. The cause of the context of a reconcile wraps it, and so
	// does the error of a Run that left keys behind.
	ErrDrainTimeout = errors.New("not drained in time")
)

// errTimeout is wrapped by the cause with which the context of a reconcile ends after Config.Timeout.
var errTimeout = errors.New("the reconcile took too long")

// errSuperseded is the cause with which the context of a reconcile ends if its key is added again, with Config.CancelSuperseded.
var errSuperseded = errors.New("controller: superseded by a newer event")

// errSyncTimeout reports that an informer or a watch has not synced in time.
var errSyncTimeout = errors.New("not synced in time")

// errStuck reports that a worker, or the whole controller, makes no progress.
var errStuck = errors.New("stuck")

// errSilent reports that a source has been silent for Config.SilentAfter.
var errSilent = errors.New("the source is silent")

// errGoexit is the value of the [wait.PanicError] of a reconcile that has called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("the reconcile called runtime.Goexit")

// errNotOwned is in the error of a reconcile of a key that belongs to another replica.
var errNotOwned = errors.New("the key belongs to another replica")

// isFenced reports whether a store has rejected a write because a later leader has written: err wraps [store.ErrFenced], or another error
// with a method Fenced() bool that returns true.
func isFenced(err error) bool { return outcome.IsFenced(err) }

// after returns a unique error that says which limit was exceeded.
func after(sentinel error, limit time.Duration) error { return &limitError{sentinel, limit} }

// limitError makes its text when it is read: each controller has such errors, and most never need them.
type limitError struct {
	sentinel error
	limit    time.Duration
}

func (e *limitError) Error() string { return fmt.Sprintf("%v: %v have passed", e.sentinel, e.limit) }
func (e *limitError) Unwrap() error { return e.sentinel }

// limitCause is a limitError as the cause of a context, which code outside this package reads.
type limitCause struct{ *limitError }

func (e limitCause) Error() string { return "controller: " + e.limitError.Error() }

// checkError calls the methods of err that are used later, so that a panic in one of them happens here, where it is recovered.
func checkError(err error) {
	_ = err.Error()
	_ = errors.Is(err, errNotOwned)
	_ = errors.As(err, new(*wait.PanicError))
	_, _ = retry.Delay(err)
	_ = retry.IsConflict(err)
	_ = isFenced(err)
}
