package retry

import (
	"errors"
	"time"
)

// ErrGaveUp says that the last attempt of the backoff failed. The error that wraps it also wraps the error of that attempt.
var ErrGaveUp = errors.New("gave up")

// Permanent marks err as final: it is not retried. [Do] and the other functions return it without asking Config.Retriable, and a controller
// parks the key. Do returns the marked error, so that an outer retry ends too. The result has the text of err and wraps err. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// After marks err as a failure to retry after d, without jitter, instead of after the backoff's delay. It counts as an attempt
// like every other failure. If d is 0 or negative, the backoff decides. Config.Retriable and Steps decide whether there is
// another attempt. If err is one of [NotYet], After changes only its delay: it remains unfinished. After(nil, d) is nil.
//
// Your own error type has the same effect if it has a method RetryAfter() time.Duration.
func After(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &afterError{err, d}
}

// NotYet says that the work has not failed but is not finished, and continues after d. Use it for a cleanup that takes minutes, or for a
// service that returns 429. If d is 0, the caller decides when to continue: a controller waits for an event, and [Do] waits for the delay
// of its backoff. If d is negative, like time.Until of a time in the past, the work continues at once. The result has the text of err and
// wraps err.
//
// NotYet(nil, d) is nil, which means that the work is finished. So always give a reason.
func NotYet(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	if d < 0 {
		d = 1 // the time has passed
	}
	return &notYetError{err, d}
}

// IsPermanent reports whether err, or any error that it wraps, was made by [Permanent]. A permanent error stays permanent, even if it has
// other marks.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// IsNotYet reports whether err is or wraps an error of [NotYet], and is not permanent. If an error wraps several errors, as one of
// errors.Join does, all of them must be errors of NotYet. Otherwise a failure could hide behind a wait.
func IsNotYet(err error) bool {
	return judge(err).notYet && !IsPermanent(err)
}

// Delay returns the delay that err requests by [After], [NotYet], or a method RetryAfter() time.Duration. It returns false if err leaves
// the delay to the backoff. If several errors are joined, the longest delay counts. If one of them is a failure, the delays of unfinished
// attempts do not count.
func Delay(err error) (d time.Duration, ok bool) {
	d = judge(err).delay
	return d, d > 0
}

// IsConflict reports whether err is a conflict. The first error in its tree that has a method Conflict() bool decides.
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

// verdict is the meaning of the marks of an error.
type verdict struct {
	notYet bool          // every branch of the tree has a mark of NotYet
	delay  time.Duration // not positive if the error requests none
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

// judgeAll joins the verdicts of errs: a failure takes precedence over an unfinished attempt, and then the longest delay counts.
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
