package controller

import (
	"strconv"
	"time"
)

// Outcome says how one reconcile ended. Each reconcile has one, which is counted in [Stats] and reported to [Hooks].
//
//	reconcile                            outcome     its key is reconciled again   attempt  backoff  logged
//	---------                            -------     ---------------------------   -------  -------  ------
//	returns no error                     Succeeded   when it is added              1        reset    Debug
//	returns no error, RequeueAfter: d    Succeeded   after d                       1        reset    Debug
//	returns an error of retry.NotYet     Unfinished  after its delay, if positive  stays    stays    Debug
//	returns a conflict                   Unfinished  after 5 ms, 10 ms, 20 ms ...  stays    stays    Debug
//	returns another error                Failed      after the backoff             +1       grows    Warn
//	returns an error with a delay d      Failed      after d                       +1       grows    Warn
//	returns an error after the timeout   TimedOut    as after Failed               +1       grows    Warn
//	panics, or calls runtime.Goexit      Panicked    after the backoff             +1       grows    Error, with the stack
//	one of these four, budget spent      Parked      when it is added              1        reset    Error
//	is unfinished for MaxElapsed         Parked      when it is added              1        reset    Error
//	returns an error of retry.Permanent  Parked      when it is added              1        reset    Error
//	returns an error after ErrSuperseded Superseded  at once                       stays    stays    Debug
//	returns an error after a stop        Canceled    first thing by the next Run   stays    stays    Info
//	returns an error of a fenced write   Canceled    as after a stop               stays    stays    Warn
//
// Whenever a key is added, it is reconciled again at once; the delay that the reconcile before asked for counts no more. A
// Result beside an error is ignored.
//
// The first of these that applies decides about an error: it is permanent; the timeout, a newer event, or a stop has ended
// the context; the write was fenced; it is unfinished; it is a conflict. Errors that are joined are read as package retry says:
// a failure does not hide behind a wait. An error is a conflict if [retry.IsConflict] says so, such as that of a write to an
// object that has changed. The cache was behind, then, and most likely is not for long. After eight conflicts in a row the next
// ones are failures. A write was fenced if the error wraps [store.ErrFenced], or has a method Fenced() bool that returns true: a
// later leader has written, and this one must not try again. The timeout is [Config.Timeout], and only it: a context that
// reconcile itself has derived and ended makes its error Failed. What a stop is, [Controller.Run] says.
//
// The budget is MaxAttempts and MaxElapsed of Config.Queue. All keys that were given up are in one list, [Controller.Parked]. An event
// or [Controller.Add] revives one, with a whole budget; [Controller.Drop] removes it. Config.GaveUp has the last word about each,
// and a key is parked only when GaveUp has worked.
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
