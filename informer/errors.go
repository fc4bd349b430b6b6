package informer

import "errors"

var (
	// ErrExpired ends a watch whose starting version is no longer in the history of the source. The only way on is to
	// list again.
	ErrExpired = errors.New("informer: version is no longer in the history of the source")

	// ErrRunning is wrapped by the error of a Run while another Run goes on.
	ErrRunning = errors.New("already running")

	// ErrEnded is wrapped by the errors of Run, AddHandler, WaitForVersion and Registration.WaitIdle when Run has ended: an
	// informer runs once. The error of WaitIdle also wraps it when the handler was removed.
	ErrEnded = errors.New("has ended")
)

// errShortWatch says that a watch was no use, so that the next one waits for a while.
var errShortWatch = errors.New("it ended at once and brought nothing new")

// errExit says that the source has ended the goroutine that reads it.
var errExit = errors.New("it has called runtime.Goexit")
