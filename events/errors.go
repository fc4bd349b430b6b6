package events

import "errors"

var (
	// ErrRunning says that the queue is running already.
	ErrRunning = errors.New("events: the queue is running")

	errDrain  = errors.New("events: run queue: the drain took too long")
	errNoSink = errors.New("the sink is nil")
)
