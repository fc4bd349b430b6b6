package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-go/setpoint/store"
	"github.com/setpoint-go/setpoint/wait"
)

var (
	// ErrRunning says that a controller is at work already: Run was called while another Run, a ProcessNext, or a Process was
	// under way, or it was connected; or Connect was called while it ran or was connected.
	ErrRunning = errors.New("controller: already running")

	// ErrUsed says that Run of a [Manager] was called a second time. A manager runs once; make a new one.
	ErrUsed = errors.New("controller: the manager has run already")

	// ErrEnded says that a component of a [Manager] returned without an error before it was told to stop.
	ErrEnded = errors.New("controller: ended by itself")

	// ErrTerminal is in the chain of every error that [Terminal] has made.
	ErrTerminal = errors.New("controller: terminal error")

	// ErrTimeout is in the chain of the cause with which the context of a Reconcile ends after [Config.Timeout].
	ErrTimeout = errors.New("controller: the reconcile took too long")

	// ErrSuperseded is the cause with which the context of a Reconcile ends, with [Config].CancelSuperseded, because its key
	// was added again: the key is reconciled again at once.
	ErrSuperseded = errors.New("controller: superseded by a newer event")

	// ErrSkip says that there was nothing to do for a key: it is not one of this controller, say, or of this replica. A
	// Reconcile that returns an error with it in the chain has neither failed nor succeeded.
	ErrSkip = errors.New("controller: skipped")

	// ErrParked says that a key has failed more often, or for longer, than its retry budget allows.
	ErrParked = errors.New("controller: parked")

	// ErrSilent says that a source is silent for [Config].SilentAfter: see [informer.Informer.Stale].
	ErrSilent = errors.New("controller: the source is silent")

	// ErrGoexit is the value of the [wait.PanicError] of a Reconcile that has called runtime.Goexit, as t.FailNow does.
	ErrGoexit = errors.New("controller: the reconcile called runtime.Goexit")

	// ErrSyncTimeout says that a cache was not filled in time.
	ErrSyncTimeout = errors.New("controller: not synced in time")

	// ErrDrainTimeout is in the chain of the cause with which the context of a Reconcile ends after
	// [Config.DrainTimeout], and in the error of a Run that did not get done in that time.
	ErrDrainTimeout = errors.New("controller: not drained in time")

	// ErrStopTimeout is in the chain of the error of a [Manager] that had to leave a part behind, because it had not returned
	// after [ManagerConfig.StopTimeout], and of the cause with which the context of a stop hook ends then.
	ErrStopTimeout = errors.New("controller: not stopped in time")
)

// Terminal marks err as one that no further attempt can mend: the controller does not try the key again until something adds
// it. The result wraps err; it is nil if err is nil.
//
// People learn about such a key from its status, from the log, or from [Controller.Parked]. So write the status first, and
// return an error of Terminal only if that has succeeded. Otherwise the key stays silent with a status that is wrong:
//
//	if err := writeStatus(ctx, key, reason); err != nil {
//		return controller.Result{}, err // tried again
//	}
//	return controller.Result{}, controller.Terminal(reason)
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string        { return "terminal: " + e.err.Error() }
func (e *terminalError) Unwrap() error        { return e.err }
func (e *terminalError) Is(target error) bool { return target == ErrTerminal }

// retryDelay returns the delay that err carries. It is an error that says when to try again: that of a rate limited
// API, for example.
func retryDelay(err error) (time.Duration, bool) {
	var e interface{ RetryAfter() time.Duration }
	if !errors.As(err, &e) {
		return 0, false
	}
	d := e.RetryAfter()
	return d, d > 0
}

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
	_, _ = retryDelay(err)
	_ = isFenced(err)
}
