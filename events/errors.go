package events

import "errors"

var (
	// ErrRunning reports that the recorder is already running.
	ErrRunning = errors.New("already running")

	errDrain = errors.New("events: run queue: the drain took too long")
)
