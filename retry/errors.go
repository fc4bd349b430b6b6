package retry

import (
	"errors"
	"time"
)

// ErrGaveUp says that the steps of the backoff were used up. The error that wraps it wraps the last attempt's error too.
var ErrGaveUp = errors.New("retry: gave up")

// Permanent marks err as final: nothing tries again. [Do] and its kin return it, whatever Config.Retriable says, and a
// controller parks the key. The mark stays on, so that a retry around the retry ends too. The text is err's, and errors.Is
// and errors.As find err. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// After marks err as a failure that is to be tried again in d, in place of the backoff's delay and without jitter. It counts
// as an attempt like every other failure. A d that is not positive leaves the delay to the backoff. Config.Retriable and
// Steps decide whether there is another attempt. After(nil, d) is nil.
//
// An error type of your own has the same effect if it has a method RetryAfter() time.Duration.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// NotYet marks err as no failure: the work is not finished, and goes on in d. A limiter that has no place yet, a cleanup that
// takes minutes, and a service that answers 429 are such cases. If d is 0, the caller decides when to go on: a controller
// waits for an event, and [Do] waits as long as its backoff says. If d is negative, as time.Until of a time that has passed is,
// the work goes on at once. The text is err's, and errors.Is and errors.As find err.
//
// NotYet(nil, d) is nil, which says that the work is finished. So never leave the reason out.
func NotYet(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		d = 1 // the time has passed
	}
	return &notYetError{err, d}
}

// IsPermanent reports whether err, or any error that it wraps, was made by [Permanent]. Of an error that is both permanent
// and something else, only this counts.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// IsNotYet reports whether err says that the work is unfinished, and nothing else: it is, or wraps, an error of [NotYet].
// Where an error wraps several errors, such as one of errors.Join, all of these have to say so. Otherwise a failure could
// hide behind a wait. It is false for an error that [IsPermanent].
func IsNotYet(err error) bool {
	return judge(err).notYet && !IsPermanent(err)
}

// Delay returns the delay that err asks for by [After], [NotYet], or a method RetryAfter() time.Duration. It returns false if
// err leaves that to the backoff. Of several errors that are joined the longest delay counts; but a failure does not wait
// for the delay of one that is only unfinished.
func Delay(err error) (d time.Duration, ok bool) {
	d = judge(err).delay
	return d, d > 0
}

// IsConflict reports whether err is a conflict: whether the first error in its tree that has a method Conflict() bool
// returns true from it.
func IsConflict(err error) bool {
	var c interface{ Conflict() bool }
	return errors.As(err, &c) && c.Conflict()
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type afterError struct {
	err error
	d   time.Duration
}

func (e *afterError) Error() string             { return e.err.Error() }
func (e *afterError) Unwrap() error             { return e.err }
func (e *afterError) RetryAfter() time.Duration { return e.d }

type notYetError struct {
	err error
	d   time.Duration
}

func (e *notYetError) Error() string { return e.err.Error() }
func (e *notYetError) Unwrap() error { return e.err }

// verdict is what the marks of an error say.
type verdict struct {
	notYet bool          // every branch of the tree has a mark of NotYet
	delay  time.Duration // not positive if the error asks for none
}

// judge reads the marks of err. Of two marks in one chain the outer one decides.
func judge(err error) (v verdict) {
	if e, ok := err.(*notYetError); ok {
		return verdict{notYet: true, delay: e.d}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			v = judge(inner)
		}
	case interface{ Unwrap() []error }:
		v = judgeAll(e.Unwrap())
	}
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		if d := e.RetryAfter(); d > 0 {
			v.delay = d
		}
	}
	return v
}

// judgeAll joins the verdicts of errs: a failure comes before what is not finished, and then the longest delay counts.
func judgeAll(errs []error) (all verdict) {
	first := true
	for _, err := range errs {
		if err == nil {
			continue
		}
		switch v := judge(err); {
		case first || all.notYet && !v.notYet:
			all, first = v, false
		case all.notYet == v.notYet:
			all.delay = max(all.delay, v.delay)
		}
	}
	return all
}
