package controller

import (
	"strconv"
	"time"
)

// Outcome says how one reconcile ended. The table in the package documentation says what follows from each.
type Outcome int

const (
	Succeeded  Outcome = iota + 1 // no error
	Requeued                      // no error, and a time at which to look again
	Failed                        // an error; tried again after the backoff
	Deferred                      // an error that says itself when to try again
	TimedOut                      // an error after Config.Timeout had passed; tried again
	Panicked                      // a panic, or a runtime.Goexit; tried again
	GivenUp                       // an error made by Terminal; not tried again
	Parked                        // the last failure that the retry budget allows; not tried again
	Skipped                       // an error with ErrSkip: there was nothing to do
	Superseded                    // an error after a newer event had ended the reconcile; done again at once
	Canceled                      // an error after the controller had to stop the reconcile, or a fenced write; done by the next Run
)

var outcomeNames = [...]string{
	Succeeded:  "Succeeded",
	Requeued:   "Requeued",
	Failed:     "Failed",
	Deferred:   "Deferred",
	TimedOut:   "TimedOut",
	Panicked:   "Panicked",
	GivenUp:    "GivenUp",
	Parked:     "Parked",
	Skipped:    "Skipped",
	Superseded: "Superseded",
	Canceled:   "Canceled",
}

// String returns the name of o.
func (o Outcome) String() string {
	if o < Succeeded || o > Canceled {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// failure tells whether o counts as a failed try, of which another follows.
func (o Outcome) failure() bool {
	return o == Failed || o == Deferred || o == TimedOut || o == Panicked
}

// Report says how one reconcile went.
type Report[K comparable] struct {
	Key     K
	Attempt int // 1, or one more than the failures of the key since it last succeeded or was given up
	Outcome Outcome

	// Err is the error, nil after Succeeded and Requeued. A panic is a *wait.PanicError. After TimedOut, Superseded and
	// Canceled it also wraps the cause with which the context ended, if it has ended.
	Err error

	// Duration is the time that the reconcile took.
	Duration time.Duration

	// Retry is the time after which the key is reconciled again. It is zero for a key that is reconciled again at once or
	// not at all, which Outcome tells apart.
	Retry time.Duration
}
