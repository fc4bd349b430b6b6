package controller

import (
	"strconv"
	"time"
)

// Outcome says how one reconcile ended. The table in the package documentation says what follows from each.
type Outcome int

const (
	Succeeded Outcome = iota + 1 // no error
	Requeued                     // no error, and a RequeueAfter
	Failed                       // an error; tried again
	GivenUp                      // an error made by Terminal; not tried again
	Panicked                     // a panic; tried again
	TimedOut                     // an error after Config.Timeout had passed; tried again
	Canceled                     // an error after the controller had to stop the reconcile; done by the next Run
)

var outcomeNames = [...]string{
	Succeeded: "Succeeded",
	Requeued:  "Requeued",
	Failed:    "Failed",
	GivenUp:   "GivenUp",
	Panicked:  "Panicked",
	TimedOut:  "TimedOut",
	Canceled:  "Canceled",
}

// String returns the name of o.
func (o Outcome) String() string {
	if o < Succeeded || o > Canceled {
		return "Outcome(" + strconv.Itoa(int(o)) + ")"
	}
	return outcomeNames[o]
}

// retried tells whether the key is owed another reconcile after o.
func (o Outcome) retried() bool { return o != Succeeded && o != GivenUp }

// failure tells whether o counts as a failed try.
func (o Outcome) failure() bool { return o == Failed || o == Panicked || o == TimedOut }

// Report says how one reconcile went.
type Report[K comparable] struct {
	Key     K
	Attempt int // 1, or one more than the failures of the key since it last succeeded or was given up
	Outcome Outcome

	// Err is the error, nil after Succeeded and Requeued. After Panicked it is a *wait.PanicError, after TimedOut and
	// Canceled it also wraps the cause with which the context ended.
	Err error

	// Duration is the time that the reconcile took.
	Duration time.Duration

	// Retry is the time after which the key is tried again. It is zero for a key that is tried again at once or not
	// at all, which Outcome tells apart.
	Retry time.Duration
}
