package controller

import (
	"strconv"
	"time"
)

// Outcome says how one reconcile ended. The table in the package documentation says what follows from each.
type Outcome int

const (
	Succeeded  Outcome = iota + 1 // no error: what is desired is there
	Unfinished                    // an error of retry.NotYet, or a conflict; goes on later, and is no failure
	Failed                        // another error; tried again after a backoff
	TimedOut                      // an error after Config.Timeout had passed; tried again
	Panicked                      // a panic, or a runtime.Goexit; tried again
	Parked                        // an error of retry.Permanent, or one that spends the budget; not tried again
	Superseded                    // an error after a newer event had ended the reconcile; done again at once
	Canceled                      // an error after the controller had to stop the reconcile, or a fenced write; done by the next Run
)

var outcomeNames = [...]string{
	Succeeded:  "Succeeded",
	Unfinished: "Unfinished",
	Failed:     "Failed",
	TimedOut:   "TimedOut",
	Panicked:   "Panicked",
	Parked:     "Parked",
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
	return o == Failed || o == TimedOut || o == Panicked
}

// Report says how one reconcile went.
type Report[K comparable] struct {
	Key     K
	Attempt int // 1, or one more than the failures of the key since it last succeeded or was parked
	Outcome Outcome

	// Err is the error, nil after Succeeded. A panic is a *wait.PanicError. After TimedOut, Superseded and
	// Canceled it also wraps the cause with which the context ended, if it has ended.
	Err error

	// Duration is the time that the reconcile took.
	Duration time.Duration

	// Retry is the time after which the key is reconciled again. It is zero for a key that is reconciled again at once, or
	// only when it is added: Outcome tells which.
	Retry time.Duration
}

// Result is what a reconcile without an error asks for: no error says that what is desired is there. Work that is not finished
// returns an error of [retry.NotYet] instead. The zero value asks for nothing: the key is reconciled again when something adds
// it. If it is added before the time that is asked for here, the result of that reconcile takes the place of this one. Beside
// an error the Result is ignored.
type Result struct {
	// RequeueAfter is the time after which the key is reconciled again, counted from the end of this reconcile. Zero
	// means never. A negative value, such as time.Until of a time that has passed, means at once.
	RequeueAfter time.Duration
}

// Hooks are functions that a [Controller] calls. Each may be nil. They are called without locks, by several workers at
// once, and should be fast: the worker waits for them.
type Hooks[K comparable] struct {
	// Reconciled is called after each reconcile, before its key can be handed out again: the key is still in flight. So one that
	// is Parked is not among Controller.Parked yet, and Drop does nothing; Add makes it come back.
	Reconciled func(Report[K])
}
